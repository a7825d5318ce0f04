import { useDeferredValue, useEffect } from "react";
import { loadQuery, type PreloadedQuery } from "react-relay/hooks";
import type { OperationType } from "relay-runtime";
import { useLocationProperty } from "wouter/use-browser-location";
import { environment } from "../network/environment";
import { signedIn } from "../session/session";
import { matchPath } from "./matchPath";
import { isRestoring } from "./navigation";
import { routes, type Route } from "./routes";

/** The page at an address. Its code and its query load together. */
interface Page {
  address: string;
  path: string;
  route: Route;
  query?: PreloadedQuery<OperationType>;
}

let current: Page | undefined;
const kept = new Set<Page>(); // pages whose queries have not been disposed yet

/** The page at the present location. The first call after a navigation begins to load it. */
export function currentPage() {
  const { pathname, search } = location;
  const address = pathname + search;
  if (current?.address === address) return current;
  current = load(address, pathname, search);
  kept.add(current);
  return current;
}

function load(address: string, path: string, search: string): Page {
  for (const route of routes) {
    const params = matchPath(route.path, path);
    if (!params) continue;
    if (route.forUsers && !signedIn) return { address, path, route };
    const variables = route.variables ? route.variables(search) : params;
    const query =
      variables && route.query && loadQuery(environment, route.query, variables, { fetchPolicy: policy(route) });
    route.code?.().catch(() => undefined); // an error is that of rendering the page
    return { address, path, route, query };
  }
  throw new Error("no route matches");
}

/** A page to which the reader goes back or forward stays as they left it; another is shown at once, and read again. */
function policy({ fresh }: Route) {
  if (fresh) return "network-only";
  return current === undefined || isRestoring() ? "store-or-network" : "store-and-network";
}

/** Resolves when the code and the data of a page are there, or one of them has failed. */
export const loaded = ({ route, query }: Page) =>
  Promise.all([route.code?.(), query?.source?.toPromise()]).catch(() => undefined);

/**
 * The page at the location, which begins to load in the event of a navigation, before React renders. At another address
 * of the same path, the page stays as it is until the next one has its data.
 */
export function usePage() {
  useLocationProperty(() => currentPage().address);
  const page = useDeferredValue(currentPage());
  useEffect(() => {
    for (const old of kept) {
      if (old === page || old === current) continue;
      old.query?.dispose();
      kept.delete(old);
    }
  }, [page]);
  return page;
}
