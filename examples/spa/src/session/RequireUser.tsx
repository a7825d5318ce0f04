import type { ReactNode } from "react";
import { Redirect, useLocation } from "wouter";
import { signedIn } from "./session";
import { useViewer } from "./useViewer";

/** Shows children to signed-in users; others sign in, or choose a username, first. */
export function RequireUser({ children }: { children: ReactNode }) {
  const viewer = useViewer();
  const [page] = useLocation();
  if (!viewer) return <Redirect to={`${signedIn ? "/welcome" : "/signin"}?to=${encodeURIComponent(page)}`} replace />;
  return children;
}
