import { ErrorTimeout, UserManager, WebStorageStateStore } from "oidc-client-ts";
import { UnreachableError } from "../network/errors";
import { oidc } from "./config";
import { signIn, token } from "./session";

if (!oidc) throw new Error("VITE_OIDC_AUTHORITY is not set");

const store = new WebStorageStateStore({ store: sessionStorage });
const manager = new UserManager({
  ...oidc,
  redirect_uri: `${location.origin}/signin/callback`,
  post_logout_redirect_uri: location.origin,
  response_type: "code", // with PKCE
  automaticSilentRenew: false, // a token is renewed when the gateway refuses it
  stateStore: store,
  userStore: store,
});

export const redirectToProvider = (page: string) => manager.signinRedirect({ state: page });

/** Completes the sign-in after the provider has redirected back. */
export async function completeSignIn() {
  const user = await manager.signinCallback();
  if (!user) throw new Error("The provider's response has no user.");
  signIn(user.access_token, typeof user.state === "string" ? user.state : "/");
}

/** Returns a new token, or undefined if the provider refuses one. */
export async function renewToken() {
  const user = await manager.signinSilent().catch((error: unknown) => {
    if (error instanceof TypeError || error instanceof ErrorTimeout) {
      throw new UnreachableError("the provider does not respond", { cause: error });
    }
  });
  if (!token()) await manager.removeUser(); // which the renewal has stored after the viewer signed out
  return user?.access_token;
}

export async function endSession() {
  const discovered = await manager.metadataService.getMetadata().catch(() => undefined);
  if (discovered?.end_session_endpoint) return manager.signoutRedirect();
  await manager.removeUser();
  location.assign("/");
}
