import { startTransition } from "react";
import { graphql, usePaginationFragment } from "react-relay/hooks";
import type { FeedList_query$key } from "../__generated__/FeedList_query.graphql";
import type { FeedListQuery } from "../__generated__/FeedListQuery.graphql";
import { nodesOf } from "../network/nodesOf";
import { LoadMore } from "../ui/LoadMore";
import { NewPosts } from "./NewPosts";
import { PostCard } from "./PostCard";

/** The feed, which loads more as one scrolls. */
export function FeedList({ query }: { query: FeedList_query$key }) {
  const { data, hasNext, isLoadingNext, loadNext, refetch } = usePaginationFragment<FeedListQuery, FeedList_query$key>(
    graphql`
      fragment FeedList_query on Query
      @refetchable(queryName: "FeedListQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 10 }, after: { type: "String" }) {
        feed(first: $first, after: $after) @connection(key: "FeedList_feed") {
          edges {
            node {
              id
              createdAt
              ...PostCard_post
            }
          }
        }
      }
    `,
    query,
  );
  const posts = nodesOf(data.feed);

  function showNewest() {
    startTransition(() => {
      refetch({}, { fetchPolicy: "network-only", onComplete: () => { scrollTo(0, 0); } });
    });
  }

  return (
    <section aria-label="Posts" className="post-list">
      <NewPosts shown={posts} onShow={showNewest} />
      {posts.map((post) => <PostCard key={post.id} post={post} />)}
      {hasNext && <LoadMore loading={isLoadingNext} onLoad={() => { loadNext(10); }}>Older posts</LoadMore>}
      {!hasNext && <p className="end">{posts.length ? "These are all the posts." : "There are no posts yet."}</p>}
    </section>
  );
}
