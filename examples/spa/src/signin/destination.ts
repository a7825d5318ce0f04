/** The page to go to after signing in: an address of this site, from that of the page for signing in. */
export function destination(search: string) {
  const to = new URLSearchParams(search).get("to") ?? "/";
  return /^\/(?![/\\\s])/.test(to) && !to.startsWith("/signin") ? to : "/"; // browsers drop tabs and line breaks
}

/** The page to return to from a page: itself, or the destination of a page for signing in or choosing a username. */
export const originOf = ({ pathname, search }: { pathname: string; search: string }) =>
  /^\/(signin|welcome)\b/.test(pathname) ? destination(search) : pathname + search;
