/** The page to go to after signing in: a path of this site, from the address. */
export function destination(search: string) {
  const to = new URLSearchParams(search).get("to") ?? "/";
  return /^\/(?![/\\])/.test(to) && !to.startsWith("/signin") ? to : "/";
}
