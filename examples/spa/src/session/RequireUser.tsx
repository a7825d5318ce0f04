import type { ReactNode } from "react";
import { Redirect } from "wouter";
import { signedIn } from "./session";
import { useReturn } from "./useReturn";
import { useViewer } from "./useViewer";

/** Shows children to signed-in users; others sign in, or choose a username, first. */
export function RequireUser({ children }: { children: ReactNode }) {
  const viewer = useViewer();
  const to = useReturn();
  if (!viewer) return <Redirect to={`${signedIn ? "/welcome" : "/signin"}${to}`} replace />;
  return children;
}
