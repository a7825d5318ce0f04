import { oidc } from "./config";
import { storage } from "./storage";

// Signing in and out load a page, so who is signed in does not change during the life of one,
// and nothing of a viewer is left in memory for the next. Session storage belongs to one tab.
const storageKey = "byline.token";

let token = storage.get(storageKey);

export const signedIn = token !== null;

export const authorization = () => token && `Bearer ${token}`;

export function signIn(newToken: string, page: string) {
  storage.set(storageKey, newToken);
  location.replace(page);
}

/** Signs out, and forgets what this tab has kept: the token, the session, and drafts. */
export function signOut() {
  token = null; // responses that are still on their way leave nothing behind
  for (const key of storage.keys()) if (key.startsWith("byline.")) storage.remove(key);
  if (oidc) void import("./oidc").then(({ endSession }) => endSession());
  else location.assign("/");
}

/** Goes on without the token, which the gateway refuses. What this tab has kept stays. */
export function readAnonymously() {
  token = null;
  storage.remove(storageKey);
  location.reload();
}

let refreshing: Promise<boolean> | undefined;

/** Gets a new token after the gateway has refused the present one, once for all requests. Reports whether it did. */
export function refresh(): Promise<boolean> {
  refreshing ??= renew().finally(() => (refreshing = undefined));
  return refreshing;
}

async function renew() {
  if (!oidc || !token) return false;
  const { renewToken } = await import("./oidc");
  const renewed = await renewToken();
  if (!renewed || !authorization()) return false; // or the viewer has signed out meanwhile
  token = renewed;
  storage.set(storageKey, token);
  return true;
}
