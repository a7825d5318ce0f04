import { backoff, retryDelay } from "byline-client";
import { GatewayError, UnreachableError } from "./errors";
import { pause, Waiting } from "./status";

const slow = 5000; // milliseconds after which the page says that a response takes long
const longestWait = 60_000; // milliseconds that a request waits without being refused

/** How long to wait before an operation is sent again, in milliseconds; undefined if a retry cannot help. */
function pauseAfter(error: unknown, attempt: number): number | undefined {
  if (error instanceof UnreachableError) return backoff(attempt);
  const ms = error instanceof GatewayError ? retryDelay(error.details, attempt) : undefined;
  return ms !== undefined && ms <= longestWait ? ms : undefined;
}
/**
 * Attempts an operation until it succeeds or a retry cannot help, and reports why it waits. All operations of this
 * application may be repeated: creates have an idempotency key, edits a version.
 */
export async function retrying<T>(attempt: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const waiting = new Waiting();
  try {
    for (let attempts = 0; ; attempts++) {
      const timer = setTimeout(() => { waiting.report("slow"); }, slow);
      try {
        return await attempt().finally(() => { clearTimeout(timer); });
      } catch (error) {
        const ms = pauseAfter(error, attempts);
        if (ms === undefined || signal.aborted) throw error;
        if (error instanceof GatewayError && error.details.code === "THROTTLED") waiting.report("throttled");
        else waiting.report(navigator.onLine ? "unreachable" : "offline");
        await pause(ms, signal);
      }
    }
  } finally {
    waiting.end();
  }
}
