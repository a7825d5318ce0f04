import { useEffect } from "react";
import { graphql, usePaginationFragment, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import type { SearchPageQuery } from "../__generated__/SearchPageQuery.graphql";
import type { SearchResults_query$key } from "../__generated__/SearchResults_query.graphql";
import type { SearchResultsQuery } from "../__generated__/SearchResultsQuery.graphql";
import { PostCard } from "../feed/PostCard";
import { announce } from "../ui/announce";
import { LoadMore } from "../ui/LoadMore";
import { Snippet } from "./Snippet";

const most = 200; // posts by relevance

/** The posts that a search has found. */
export function SearchResults({ query }: { query: PreloadedQuery<SearchPageQuery> }) {
  const searched = usePreloadedQuery<SearchPageQuery>(
    graphql`
      query SearchPageQuery($query: String!, $order: SearchOrder, $tag: String, $author: ID) @preloadable {
        ...SearchResults_query
      }
    `,
    query,
  );
  const { data: { search }, hasNext, isLoadingNext, loadNext } = usePaginationFragment<
    SearchResultsQuery, SearchResults_query$key
  >(
    graphql`
      fragment SearchResults_query on Query
      @refetchable(queryName: "SearchResultsQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 10 }, after: { type: "String" }) {
        search(query: $query, order: $order, tag: $tag, author: $author, first: $first, after: $after)
          @connection(key: "SearchResults_search") {
          edges {
            snippet {
              ...Snippet_snippet
            }
            node {
              id
              ...PostCard_post
            }
          }
        }
      }
    `,
    searched,
  );
  // @deleteRecord leaves edges without a node
  const found = search.edges.filter(({ node }) => (node as typeof node | null) !== null);
  const count = found.length === 1 ? "1 post" : `${found.length} posts`;

  useEffect(() => {
    announce(hasNext ? `More than ${count} found.` : `${found.length ? count : "No posts"} found.`);
  }, [hasNext, found.length, count]);

  if (!found.length && !hasNext) {
    return (
      <>
        <p>No posts match all of this.</p>
        <p className="hint">Try fewer words, other words, or no quotes.</p>
      </>
    );
  }
  return (
    <section aria-label="Results" className="post-list">
      {found.map(({ node, snippet }, i) => (
        <PostCard key={node.id} post={node} first={i === 0}><Snippet snippet={snippet} /></PostCard>
      ))}
      {hasNext && <LoadMore loading={isLoadingNext} onLoad={() => { loadNext(10); }}>More posts</LoadMore>}
      {!hasNext && found.length >= most && <p className="end">These are the {most} best matches.</p>}
    </section>
  );
}
