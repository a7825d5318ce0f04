import { graphql, useFragment } from "react-relay/hooks";
import { Link, useLocation } from "wouter";
import type { PostActions_post$key } from "../__generated__/PostActions_post.graphql";
import { announce } from "../ui/announce";
import { DeletePost } from "./DeletePost";

/** What authors can do with a post of theirs, and moderators with any. */
export function PostActions({ post }: { post: PostActions_post$key }) {
  const { id, slug, viewerCanUpdate, viewerCanDelete } = useFragment(
    graphql`
      fragment PostActions_post on Post
      @argumentDefinitions(signedIn: { type: "Boolean!", provider: "../session/signedIn.relayprovider" }) {
        id
        slug
        viewerCanUpdate @include(if: $signedIn)
        viewerCanDelete @include(if: $signedIn)
      }
    `,
    post,
  );
  const [, navigate] = useLocation();
  if (!viewerCanDelete) return null;

  function deleted() {
    announce("The post is deleted.");
    navigate("/", { replace: true });
  }
  return (
    <div className="post-actions">
      {viewerCanUpdate && <Link href={`/posts/${slug}/edit`} className="button">Edit</Link>}
      <DeletePost id={id} onDeleted={deleted} />
    </div>
  );
}
