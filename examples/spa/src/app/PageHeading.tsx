import type { ReactNode } from "react";
import { useArrival } from "./navigation";

/** The heading and the title of a page. After a navigation it has the focus. */
export function PageHeading({ title, hidden, children }: { title: string; hidden?: boolean; children?: ReactNode }) {
  return (
    <>
      <title>{title === "Byline" ? title : `${title} · Byline`}</title>
      <h1 ref={useArrival()} tabIndex={-1} dir="auto" className={hidden ? "visually-hidden" : undefined}>
        {children ?? title}
      </h1>
    </>
  );
}
