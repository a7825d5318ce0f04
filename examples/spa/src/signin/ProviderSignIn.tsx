import { useState } from "react";
import { ErrorText } from "../ui/ErrorText";

/** Signs in at the OpenID Connect provider. */
export function ProviderSignIn({ page }: { page: string }) {
  const [state, setState] = useState<"ready" | "leaving" | "failed">("ready");

  function redirect() {
    if (state === "leaving") return;
    setState("leaving");
    import("../session/oidc")
      .then(({ redirectToProvider }) => redirectToProvider(page))
      .catch(() => { setState("failed"); });
  }
  return (
    <>
      <p>You sign in at your identity provider, and come back to this page.</p>
      <button type="button" className="button primary" aria-disabled={state === "leaving"} onClick={redirect}>
        {state === "leaving" ? "One moment…" : "Continue to sign in"}
      </button>
      <ErrorText>{state === "failed" && "The identity provider does not respond. Try again in a moment."}</ErrorText>
    </>
  );
}
