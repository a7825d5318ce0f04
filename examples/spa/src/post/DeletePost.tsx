import { useState } from "react";
import { graphql, useMutation } from "react-relay/hooks";
import type { DeletePostMutation } from "../__generated__/DeletePostMutation.graphql";
import { codeOf } from "../network/errors";
import { useAction } from "../session/useAction";
import { ErrorNote } from "../ui/ErrorNote";

const mutation = graphql`
  mutation DeletePostMutation($input: DeletePostInput!) {
    deletePost(input: $input) {
      deletedPostId @deleteRecord
    }
  }
`;

/** Deletes a post or a draft, once its author has confirmed it. */
export function DeletePost({ id, onDeleted }: { id: string; onDeleted: () => void }) {
  const [asking, setAsking] = useState(false);
  const remove = useAction(useMutation<DeletePostMutation>(mutation), "token");

  function confirm() {
    remove.run({
      variables: { input: { id } },
      onCompleted: onDeleted,
      onError: (error) => { if (codeOf(error) === "NOT_FOUND") onDeleted(); }, // by an attempt whose response was lost
    });
  }
  if (!asking) return <button type="button" className="button" onClick={() => { setAsking(true); }}>Delete…</button>;
  return (
    <>
      <button type="button" className="button danger" aria-disabled={remove.busy} onClick={confirm}>
        Delete for ever
      </button>
      <button type="button" className="button" onClick={() => { setAsking(false); }}>Keep</button>
      <ErrorNote error={remove.error} />
    </>
  );
}
