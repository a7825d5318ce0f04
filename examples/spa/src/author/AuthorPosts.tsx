import { graphql, usePaginationFragment } from "react-relay/hooks";
import type { AuthorPosts_user$key } from "../__generated__/AuthorPosts_user.graphql";
import type { AuthorPostsQuery } from "../__generated__/AuthorPostsQuery.graphql";
import { PostCard } from "../feed/PostCard";
import { nodesOf } from "../network/nodesOf";
import { LoadMore } from "../ui/LoadMore";

/** The posts of an author, the newest first. */
export function AuthorPosts({ user }: { user: AuthorPosts_user$key }) {
  const { data, hasNext, isLoadingNext, loadNext } = usePaginationFragment<AuthorPostsQuery, AuthorPosts_user$key>(
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
  const posts = nodesOf(data.posts);
  return (
    <section aria-label="Posts" className="post-list">
      {posts.map((post) => <PostCard key={post.id} post={post} />)}
      {hasNext && <LoadMore loading={isLoadingNext} onLoad={() => { loadNext(10); }}>Older posts</LoadMore>}
      {posts.length === 0 && <p className="end">No posts yet.</p>}
    </section>
  );
}
