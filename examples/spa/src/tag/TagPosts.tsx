import { graphql, usePaginationFragment } from "react-relay/hooks";
import type { TagPosts_tag$key } from "../__generated__/TagPosts_tag.graphql";
import type { TagPostsQuery } from "../__generated__/TagPostsQuery.graphql";
import { PostCard } from "../feed/PostCard";
import { nodesOf } from "../network/nodesOf";
import { LoadMore } from "../ui/LoadMore";

/** The posts with a tag, the newest first. */
export function TagPosts({ tag }: { tag: TagPosts_tag$key }) {
  const { data, hasNext, isLoadingNext, loadNext } = usePaginationFragment<TagPostsQuery, TagPosts_tag$key>(
    graphql`
      fragment TagPosts_tag on Tag
      @refetchable(queryName: "TagPostsQuery")
      @argumentDefinitions(first: { type: "Int", defaultValue: 10 }, after: { type: "String" }) {
        posts(first: $first, after: $after) @connection(key: "TagPosts_posts") {
          edges {
            node {
              id
              ...PostCard_post
            }
          }
        }
      }
    `,
    tag,
  );
  const posts = nodesOf(data.posts);
  return (
    <section aria-label="Posts" className="post-list">
      {posts.map((post) => <PostCard key={post.id} post={post} />)}
      {hasNext && <LoadMore loading={isLoadingNext} onLoad={() => { loadNext(10); }}>Older posts</LoadMore>}
      {posts.length === 0 && <p className="end">No posts have this tag.</p>}
    </section>
  );
}
