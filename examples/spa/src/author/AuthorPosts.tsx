import { graphql, usePaginationFragment } from "react-relay/hooks";
import type { AuthorPosts_user$key } from "../__generated__/AuthorPosts_user.graphql";
import type { AuthorPostsQuery } from "../__generated__/AuthorPostsQuery.graphql";
import { PostList } from "../feed/PostList";
import { nodesOf } from "../network/nodesOf";

/** The posts of an author, the newest first. */
export function AuthorPosts({ user }: { user: AuthorPosts_user$key }) {
  const { data, ...pagination } = usePaginationFragment<AuthorPostsQuery, AuthorPosts_user$key>(
    graphql`
      fragment AuthorPosts_user on User
      @refetchable(queryName: "AuthorPostsQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 10 }, after: { type: "String" }) {
        posts(first: $first, after: $after) @connection(key: "AuthorPosts_posts") {
          edges {
            node {
              id
              ...PostCard_post
            }
          }
        }
      }
    `,
    user,
  );
  return <PostList posts={nodesOf(data.posts)} pagination={pagination} empty="No posts yet." />;
}
