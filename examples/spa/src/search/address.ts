import type { SearchPageQuery$variables } from "../__generated__/SearchPageQuery.graphql";

/** What one searches for, as the address of the page has it. */
export interface Search {
  q?: string; // as it is typed
  order?: string; // "newest", or that of the best matches
  tag?: string;
  author?: string; // a global id
}

/** The search of an address, of which the part after the "?" is given. */
export const searchOf = (parameters: string): Search => Object.fromEntries(new URLSearchParams(parameters));

/** The address of a search. */
export function pathOfSearch(search: Search) {
  const set = Object.entries(search).filter(([, value]) => value) as [string, string][];
  return set.length ? `/search?${new URLSearchParams(set)}` : "/search";
}

/** The variables of the query that searches; undefined without words. */
export function variablesOf(parameters: string): SearchPageQuery$variables | undefined {
  const { q = "", order, tag, author } = searchOf(parameters);
  const query = q.trim();
  if (!query) return undefined;
  return { query, ...(order === "newest" && { order: "NEWEST" }), ...(tag && { tag }), ...(author && { author }) };
}
