import type { ReactNode } from "react";

/** An error that screen readers announce when it appears. */
export function ErrorText({ children }: { children: ReactNode }) {
  return <div role="alert" className="error-note">{children}</div>;
}
