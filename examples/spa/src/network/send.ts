import { authorization, refresh } from "../session/session";
import { storage } from "../session/storage";
import { SessionEndedError, UnreachableError } from "./errors";

// The gateway's record of what this tab has written: with it, every instance shows these writes.
const storageKey = "byline.session";

/** The headers of a request, or the payload of a WebSocket's connection_init. */
export function credentials(): Record<string, string> {
  const token = authorization();
  const session = storage.get(storageKey);
  return {
    ...(token && { Authorization: token }),
    ...(session && { "Byline-Session": session }),
    ...(import.meta.env.DEV && { "Byline-Cost": "summary" }),
  };
}

const timeout = 40_000; // milliseconds; the gateway's is 30 s
const mediaType = "application/graphql-response+json"; // with it, a refused token has status 401

type Init = Omit<RequestInit, "headers"> & { headers?: Record<string, string> };

/** Sends a request, once more with a new token if the gateway refuses the present one. */
export async function send(url: string, init: Init, signal: AbortSignal): Promise<Response> {
  const attempt = () =>
    fetch(url, {
      ...init,
      headers: { Accept: mediaType, ...init.headers, ...credentials() },
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeout)]),
    }).catch((error: unknown) => {
      throw new UnreachableError("no response", { cause: error });
    });
  let response = await attempt();
  if (response.status === 401 && authorization()) {
    if (!(await refresh())) throw new SessionEndedError("the token is not valid");
    response = await attempt();
  }
  const session = response.headers.get("Byline-Session");
  if (session && authorization()) storage.set(storageKey, session);
  return response;
}
