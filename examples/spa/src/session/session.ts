import { SessionEndedError } from "../network/errors";
import { oidc } from "./config";
import { storage } from "./storage";

// Signing in and out load a page, so who is signed in does not change during the life of one,
// and nothing of a viewer is left in memory for the next. Session storage belongs to one tab.
const storageKey = "byline.token";

let current = storage.get(storageKey);

export const signedIn = current !== null;

export const token = () => current;

/** The name that a demo user has signed in with; empty for users of a provider. */
export const demoName = () => (oidc ? "" : (current ?? "").replace(/^.*:/, ""));

export function signIn(newToken: string, page: string) {
  storage.set(storageKey, newToken);
  location.replace(page);
}

/** Signs out, and forgets what this tab has kept: the token, the session, and drafts. */
export function signOut() {
  current = null; // responses that are still on their way leave nothing behind
  for (const key of storage.keys()) if (key.startsWith("byline.")) storage.remove(key);
  if (oidc) void import("./oidc").then(({ endSession }) => endSession());
  else location.assign("/");
}

/** Goes on without the token, which the gateway refuses. What this tab has kept stays. */
export function readAnonymously() {
  current = null;
  storage.remove(storageKey);
  location.reload();
}

/** Gets a new token after the gateway has refused the present one. */
export async function refresh() {
  if (!oidc || !current) throw new SessionEndedError("the token is not valid");
  const { renewToken } = await import("./oidc");
  const renewed = await renewToken();
  if (!renewed || !token()) throw new SessionEndedError("the token is not valid"); // or the viewer has signed out
  current = renewed;
  storage.set(storageKey, renewed);
}
