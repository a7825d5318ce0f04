import { graphql, usePaginationFragment } from "react-relay/hooks";
import type { TagPosts_tag$key } from "../__generated__/TagPosts_tag.graphql";
import type { TagPostsQuery } from "../__generated__/TagPostsQuery.graphql";
import { PostList } from "../feed/PostList";
import { nodesOf } from "../network/nodesOf";

/** The posts with a tag, the newest first. */
export function TagPosts({ tag }: { tag: TagPosts_tag$key }) {
  const { data, ...pagination } = usePaginationFragment<TagPostsQuery, TagPosts_tag$key>(
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
  return <PostList posts={nodesOf(data.posts)} pagination={pagination} empty="No posts have this tag." />;
}
