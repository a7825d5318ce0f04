import { graphql, useFragment } from "react-relay/hooks";
import type { PostContent_post$key } from "../__generated__/PostContent_post.graphql";
import { Paragraphs } from "../ui/Paragraphs";

export function PostContent({ post }: { post: PostContent_post$key }) {
  const { content } = useFragment(
    graphql`
      fragment PostContent_post on Post {
        content
      }
    `,
    post,
  );
  return <Paragraphs className="content" text={content ?? ""} />;
}
