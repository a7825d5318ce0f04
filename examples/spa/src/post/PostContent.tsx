import { graphql, useFragment } from "react-relay/hooks";
import type { PostContent_post$key } from "../__generated__/PostContent_post.graphql";
import { Html } from "../ui/Html";

export function PostContent({ post }: { post: PostContent_post$key }) {
  const { contentHtml } = useFragment(
    graphql`
      fragment PostContent_post on Post {
        contentHtml
      }
    `,
    post,
  );
  return <Html className="content" html={contentHtml ?? ""} />;
}
