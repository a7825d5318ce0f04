import { useState } from "react";
import { graphql, useFragment, useMutation } from "react-relay/hooks";
import { Link, useLocation } from "wouter";
import type { PostActions_post$key } from "../__generated__/PostActions_post.graphql";
import type { PostActionsDeleteMutation } from "../__generated__/PostActionsDeleteMutation.graphql";
import { codeOf } from "../network/errors";
import { useAction } from "../session/useAction";
import { announce } from "../ui/announce";
import { ErrorNote } from "../ui/ErrorNote";

const deleteMutation = graphql`
  mutation PostActionsDeleteMutation($input: DeletePostInput!) {
    deletePost(input: $input) {
      deletedPostId @deleteRecord
    }
  }
`;

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
  const [asking, setAsking] = useState(false);
  const remove = useAction(useMutation<PostActionsDeleteMutation>(deleteMutation));
  if (!viewerCanDelete) return null;

  function done() {
    announce("The post is deleted.");
    navigate("/", { replace: true });
  }
  function confirm() {
    remove.run({
      variables: { input: { id } },
      onCompleted: done,
      onError: (error) => { if (codeOf(error) === "NOT_FOUND") done(); }, // by an attempt whose response was lost
    });
  }
  return (
    <div className="post-actions">
      {viewerCanUpdate && <Link href={`/posts/${slug}/edit`} className="button">Edit</Link>}
      {!asking && <button type="button" className="button" onClick={() => { setAsking(true); }}>Delete…</button>}
      {asking && (
        <>
          <button type="button" className="button danger" aria-disabled={remove.busy} onClick={confirm}>
            Delete for ever
          </button>
          <button type="button" className="button" onClick={() => { setAsking(false); }}>Keep</button>
        </>
      )}
      <ErrorNote error={remove.error} />
    </div>
  );
}
