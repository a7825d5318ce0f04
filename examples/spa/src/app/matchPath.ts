/** The parameters of a path, decoded, if it is one of a pattern such as `/posts/:slug`; `*` is any path. */
export function matchPath(pattern: string, pathname: string): Record<string, string> | undefined {
  const source = pattern.replace("*", ".*").replaceAll(/:(\w+)/g, "(?<$1>[^/]+)");
  const match = new RegExp(`^${source}/?$`, "i").exec(pathname);
  return match
    ? Object.fromEntries(Object.entries(match.groups ?? {}).map(([name, value]) => [name, decoded(value)]))
    : undefined;
}

function decoded(segment: string) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
