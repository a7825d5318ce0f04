import { startTransition } from "react";
import { graphql, usePaginationFragment } from "react-relay/hooks";
import { Link } from "wouter";
import type { HomeList_user$key } from "../__generated__/HomeList_user.graphql";
import type { HomeListNewestQuery } from "../__generated__/HomeListNewestQuery.graphql";
import type { HomeListQuery } from "../__generated__/HomeListQuery.graphql";
import type { HomeListSubscription } from "../__generated__/HomeListSubscription.graphql";
import { NewPosts, type Source } from "../feed/NewPosts";
import { PostList } from "../feed/PostList";
import { nodesOf } from "../network/nodesOf";

const source: Source<HomeListSubscription, HomeListNewestQuery> = {
  subscription: graphql`
    subscription HomeListSubscription {
      homePublished {
        id
        createdAt
      }
    }
  `,
  published: ({ homePublished }) => homePublished,
  query: graphql`
    query HomeListNewestQuery {
      viewer {
        home(first: 20) {
          edges {
            node {
              id
              createdAt
            }
          }
        }
      }
    }
  `,
  newest: ({ viewer }) => (viewer?.home ? nodesOf(viewer.home) : []),
};

/** The posts of those whom a user follows, which load more as one scrolls. */
export function HomeList({ user }: { user: HomeList_user$key }) {
  const { data, refetch, ...pagination } = usePaginationFragment<HomeListQuery, HomeList_user$key>(
    graphql`
      fragment HomeList_user on User
      @refetchable(queryName: "HomeListQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 10 }, after: { type: "String" }) {
        followingCount
        home(first: $first, after: $after) @connection(key: "HomeList_home") {
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
    user,
  );
  const posts = data.home ? nodesOf(data.home) : [];

  function showNewest() {
    startTransition(() => {
      refetch({}, { fetchPolicy: "network-only", onComplete: () => { scrollTo(0, 0); } });
    });
  }

  const empty = (
    <>
      <p>
        {data.followingCount
          ? "Those you follow have not posted yet. New posts of theirs appear here."
          : "Follow somebody to see their posts here: the button is beside the author of each post."}
      </p>
      <p><Link href="/" className="button">Read the newest posts</Link></p>
    </>
  );
  return (
    <PostList posts={posts} pagination={pagination} empty={empty} end="These are all the posts of those you follow.">
      <NewPosts source={source} shown={posts} onShow={showNewest} />
    </PostList>
  );
}
