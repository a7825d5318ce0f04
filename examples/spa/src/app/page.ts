import { useEffect } from "react";
import { loadQuery, type PreloadedQuery } from "react-relay/hooks";
import type { OperationType } from "relay-runtime";
import { useLocationProperty } from "wouter/use-browser-location";
import { environment } from "../network/environment";
import { signedIn } from "../session/session";
import { matchPath } from "./matchPath";
import { isRestoring } from "./navigation";
import { routes, type Route } from "./routes";

/** The page at a path. Its code and its query load together. */
interface Page {
  path: string;
  route: Route;
  query?: PreloadedQuery<OperationType>;
}

let current: Page | undefined;
const left: Page[] = []; // pages whose queries have not been disposed yet

/** The page at the present location. The first call after a navigation begins to load it. */
export function currentPage() {
  const { pathname } = location;
  if (current?.path === pathname) return current;
  if (current) left.push(current);
  current = load(pathname);
  return current;
}

function load(path: string): Page {
  for (const route of routes) {
    const params = matchPath(route.path, path);
    if (!params) continue;
    if (route.forUsers && !signedIn) return { path, route };
    const query = route.query && loadQuery(environment, route.query, params, { fetchPolicy: policy(route) });
    route.code?.().catch(() => undefined); // an error is that of rendering the page
    return { path, route, query };
  }
  throw new Error("no route matches");
}

/** A page to which the reader goes back or forward stays as they left it; another is shown at once, and read again. */
function policy({ forUsers }: Route) {
  if (forUsers) return "network-only";
  return current === undefined || isRestoring() ? "store-or-network" : "store-and-network";
}

/** Resolves when the code and the data of a page are there, or one of them has failed. */
export const loaded = ({ route, query }: Page) =>
  Promise.all([route.code?.(), query?.source?.toPromise()]).catch(() => undefined);

/** The page at the location, which begins to load in the event of a navigation, before React renders. */
export function usePage() {
  useLocationProperty(() => currentPage().path);
  const page = currentPage();
  useEffect(() => {
    for (const { query } of left.splice(0)) query?.dispose();
  }, [page]);
  return page;
}
