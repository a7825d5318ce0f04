/** Part of an error's extensions. The schema lists the codes and reasons. */
export interface ErrorExtensions {
  code?: string;
  reason?: string;
  field?: string;
  retryAfterMs?: number;
  until?: string;
  requestId?: string;
  id?: string;
}

/** The pause before a retry, in milliseconds: it doubles with each attempt, from half a second to 8 s, and is random. */
export const backoff = (attempt: number, random = Math.random()) =>
  Math.min(500 * 2 ** attempt, 8000) * (0.75 + random / 2);

/** How long to wait before an operation is sent again, in milliseconds; undefined if a retry cannot help. */
export function retryDelay(extensions: ErrorExtensions = {}, attempt = 0, random?: number): number | undefined {
  const { code, retryAfterMs = 0, id } = extensions;
  if (id) return undefined; // it is written; only the response is missing
  if (code !== "THROTTLED" && code !== "UNAVAILABLE") return undefined;
  return Math.max(retryAfterMs, backoff(attempt, random));
}
