import { startTransition } from "react";
import { graphql, usePaginationFragment } from "react-relay/hooks";
import type { FeedList_query$key } from "../__generated__/FeedList_query.graphql";
import type { FeedListNewestQuery } from "../__generated__/FeedListNewestQuery.graphql";
import type { FeedListQuery } from "../__generated__/FeedListQuery.graphql";
import type { FeedListSubscription } from "../__generated__/FeedListSubscription.graphql";
import { nodesOf } from "../network/nodesOf";
import { NewPosts, type Source } from "./NewPosts";
import { PostList } from "./PostList";

const source: Source<FeedListSubscription, FeedListNewestQuery> = {
  subscription: graphql`
    subscription FeedListSubscription {
      postPublished {
        id
        createdAt
      }
    }
  `,
  published: ({ postPublished }) => postPublished,
  query: graphql`
    query FeedListNewestQuery {
      feed(first: 20) {
        edges {
          node {
            id
            createdAt
          }
        }
      }
    }
  `,
  newest: ({ feed }) => nodesOf(feed),
};

/** The feed, which loads more as one scrolls. */
export function FeedList({ query }: { query: FeedList_query$key }) {
  const { data, refetch, ...pagination } = usePaginationFragment<FeedListQuery, FeedList_query$key>(
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
    <PostList posts={posts} pagination={pagination} empty="There are no posts yet." end="These are all the posts.">
      <NewPosts source={source} shown={posts} onShow={showNewest} />
    </PostList>
  );
}
