import { useState } from "react";
import { graphql, useFragment, useMutation } from "react-relay/hooks";
import { Link, useLocation } from "wouter";
import type { OwnPostActions_post$key } from "../__generated__/OwnPostActions_post.graphql";
import type { OwnPostActionsDeleteMutation } from "../__generated__/OwnPostActionsDeleteMutation.graphql";
import { codeOf } from "../network/errors";
import { useAction } from "../session/useAction";
import { useViewer } from "../session/useViewer";
import { announce } from "../ui/announce";
import { ErrorNote } from "../ui/ErrorNote";

const deleteMutation = graphql`
  mutation OwnPostActionsDeleteMutation($input: DeletePostInput!) {
    deletePost(input: $input) {
      deletedPostId @deleteRecord
    }
  }
`;

/** What authors can do with a post of theirs. */
export function OwnPostActions({ post }: { post: OwnPostActions_post$key }) {
  const { id, author } = useFragment(
    graphql`
      fragment OwnPostActions_post on Post {
        id
        author {
          id
        }
      }
    `,
    post,
  );
  const viewer = useViewer();
  const [, navigate] = useLocation();
  const [asking, setAsking] = useState(false);
  const remove = useAction(useMutation<OwnPostActionsDeleteMutation>(deleteMutation));
  if (viewer?.id !== author.id) return null;

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
    <div className="own-actions">
      <Link href={`/posts/${id}/edit`} className="button">Edit</Link>
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
