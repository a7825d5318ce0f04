import { graphql, useFragment } from "react-relay/hooks";
import type { Cover_post$key } from "../__generated__/Cover_post.graphql";
import "./pictures.css";

/** The cover of a post, if it has one. It takes its place before it has loaded. */
export function Cover({ post, priority = false }: { post: Cover_post$key; priority?: boolean }) {
  const { coverImage } = useFragment(
    graphql`
      fragment Cover_post on Post {
        coverImage {
          url
          alt
          width
          height
        }
      }
    `,
    post,
  );
  if (!coverImage) return null;
  const { url, alt, width, height } = coverImage;
  return (
    <img
      className="cover"
      loading={priority ? undefined : "lazy"}
      fetchPriority={priority ? "high" : undefined}
      src={url}
      alt={alt}
      width={width ?? undefined}
      height={height ?? undefined}
    />
  );
}
