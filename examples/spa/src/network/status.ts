import { useSyncExternalStore } from "react";

/** Why requests wait. The most important comes first. */
export const problems = ["offline", "unreachable", "throttled", "slow"] as const;
export type Problem = (typeof problems)[number];

const waiting = new Map<symbol, Problem>();
const listeners = new Set<() => void>();
const retries = new EventTarget();

function notify() {
  for (const listener of listeners) listener();
}

/** What one request, or the socket, waits for. */
export class Waiting {
  readonly #id = Symbol();

  report(problem: Problem) {
    waiting.set(this.#id, problem);
    notify();
  }

  end() {
    if (waiting.delete(this.#id)) notify();
  }
}

/** Resolves after the pause, or earlier when the browser is online again or the viewer asks to try now. */
export function pause(ms: number, signal?: AbortSignal) {
  return new Promise<void>((resolve) => {
    const done = new AbortController();
    const end = () => {
      clearTimeout(timer);
      done.abort();
      resolve();
    };
    const timer = setTimeout(end, ms);
    addEventListener("online", end, { signal: done.signal });
    retries.addEventListener("retry", end, { signal: done.signal });
    signal?.addEventListener("abort", end, { signal: done.signal });
  });
}

export const retryNow = () => retries.dispatchEvent(new Event("retry"));

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

const current = () => problems.find((problem) => [...waiting.values()].includes(problem));

export const useProblem = () => useSyncExternalStore(subscribe, current);
