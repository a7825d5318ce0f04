import { useEffect, useLayoutEffect, useRef } from "react";
import { storage } from "../session/storage";

// Where each entry of the tab's history was scrolled to. Browsers without the Navigation API restore it by themselves.
const storageKey = "byline.scroll";
const history = window.navigation as Navigation | undefined;
const positions = new Map(JSON.parse(storage.get(storageKey) ?? "[]") as [string, number][]);

const entry = () => history?.currentEntry?.key ?? "";

let restoring = positions.get(entry()); // until the page that belongs there has its content
let first = true; // no page has been left yet

/** Whether the reader goes back or forward to a page, which is not shown yet. */
export const isRestoring = () => restoring !== undefined;

export function keepScrollPositions() {
  if (!history) return;
  window.history.scrollRestoration = "manual";
  addEventListener("scroll", () => {
    if (restoring === undefined) positions.set(entry(), scrollY);
  });
  addEventListener("popstate", () => (restoring = positions.get(entry()) ?? 0));
  addEventListener("pagehide", () => {
    storage.set(storageKey, JSON.stringify([...positions].slice(-50)));
  });
}

/** To be called when the location changes, before its page is shown. */
export function useScrollToTop(location: string) {
  const shown = useRef(location);
  useLayoutEffect(() => {
    if (shown.current === location) return;
    shown.current = location;
    first = false;
    if (restoring === undefined) scrollTo(0, 0);
  }, [location]);
}

/** Returns a ref for the heading of a page: when its content is there, it gets the focus and the page its position. */
export function useArrival() {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (!first) heading.current?.focus({ preventScroll: true });
    if (restoring === undefined) return;
    scrollTo(0, restoring);
    restoring = undefined;
  }, []);
  return heading;
}
