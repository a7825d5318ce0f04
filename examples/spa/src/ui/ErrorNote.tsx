import type { ReactNode } from "react";
import { Link } from "wouter";
import { messageOf, SessionEndedError } from "../network/errors";
import { readAnonymously } from "../session/session";
import { useReturn } from "../session/useReturn";
import { ErrorText } from "./ErrorText";

/** Says what went wrong with an action, if something did, and what to do. */
export function ErrorNote({ error, children }: { error: unknown; children?: ReactNode }) {
  const to = useReturn();
  return (
    <ErrorText>
      {error != null && (
        <>
          <p>{messageOf(error)}</p>
          {error instanceof SessionEndedError && (
            <p className="actions">
              <Link href={`/signin${to}`}>Sign in</Link>
              <button type="button" className="button" onClick={readAnonymously}>Read without signing in</button>
            </p>
          )}
          {children}
        </>
      )}
    </ErrorText>
  );
}
