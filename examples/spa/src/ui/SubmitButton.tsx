import type { ReactNode } from "react";

/** A form's button. While it is busy it keeps the focus, and the form must ignore it. */
export function SubmitButton({ busy, children }: { busy: boolean; children: ReactNode }) {
  return (
    <button type="submit" className="button primary" aria-disabled={busy} aria-busy={busy}>
      {children}
    </button>
  );
}
