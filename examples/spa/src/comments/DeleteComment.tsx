import { useState } from "react";
import { graphql, useMutation } from "react-relay/hooks";
import type { DeleteCommentMutation } from "../__generated__/DeleteCommentMutation.graphql";
import { codeOf } from "../network/errors";
import { useAction } from "../session/useAction";
import { announce } from "../ui/announce";
import { ErrorNote } from "../ui/ErrorNote";

const mutation = graphql`
  mutation DeleteCommentMutation($input: DeleteCommentInput!) {
    deleteComment(input: $input) {
      deletedCommentId @deleteRecord
      post {
        id
        commentCount
      }
    }
  }
`;

export function DeleteComment({ id }: { id: string }) {
  const [asking, setAsking] = useState(false);
  const remove = useAction(useMutation<DeleteCommentMutation>(mutation), "token");

  function confirm() {
    remove.run({
      variables: { input: { id } },
      onCompleted: () => { announce("The comment is deleted."); },
    });
  }
  if (!asking) return <button type="button" className="link" onClick={() => { setAsking(true); }}>Delete</button>;
  const gone = codeOf(remove.error) === "NOT_FOUND"; // by an attempt whose response was lost, or in another tab
  return (
    <>
      <button type="button" className="link danger" aria-disabled={remove.busy} onClick={confirm}>
        Delete this comment
      </button>
      <button type="button" className="link" onClick={() => { setAsking(false); }}>Keep it</button>
      <ErrorNote error={gone ? undefined : remove.error} />
      {gone && <span>It is deleted.</span>}
    </>
  );
}
