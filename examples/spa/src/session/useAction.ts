import { useState } from "react";
import type { UseMutationConfig } from "react-relay/hooks";
import type { MutationParameters } from "relay-runtime";
import { useLocation } from "wouter";
import { signedIn } from "./session";
import { useReturn } from "./useReturn";
import { useViewer } from "./useViewer";

type Mutation<T extends MutationParameters> = readonly [(config: UseMutationConfig<T>) => unknown, boolean];

/**
 * Makes a mutation an action of the viewer: one at a time, with its error, and not before they have signed in and
 * chosen a username.
 */
export function useAction<T extends MutationParameters>(
  [commit, busy]: Mutation<T>,
  requires: "user" | "token" = "user", // moderators need no user of their own
) {
  const viewer = useViewer();
  const [, navigate] = useLocation();
  const to = useReturn();
  const [error, setError] = useState<unknown>();

  function run(config: UseMutationConfig<T>) {
    if (busy) return;
    setError(undefined);
    if (!viewer && (requires === "user" || !signedIn)) {
      navigate(`${signedIn ? "/welcome" : "/signin"}${to}`);
      return;
    }
    commit({
      ...config,
      onError: (reason) => {
        setError(reason);
        config.onError?.(reason);
      },
    });
  }
  return { run, busy, error };
}
