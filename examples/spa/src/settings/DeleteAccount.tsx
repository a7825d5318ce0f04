import { useState, type SubmitEvent } from "react";
import { graphql, useMutation } from "react-relay/hooks";
import type { DeleteAccountMutation } from "../__generated__/DeleteAccountMutation.graphql";
import { useAction } from "../session/useAction";
import { ErrorNote } from "../ui/ErrorNote";

const mutation = graphql`
  mutation DeleteAccountMutation($input: DeleteUserInput!) {
    deleteUser(input: $input) {
      deletedUserId
    }
  }
`;

interface Props {
  user: { id: string; username: string };
  onDeleted: () => void;
}

/** Deletes an account, after the viewer has typed its username. */
export function DeleteAccount({ user: { id, username }, onDeleted }: Props) {
  const [typed, setTyped] = useState("");
  const remove = useAction(useMutation<DeleteAccountMutation>(mutation));

  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (typed === username) remove.run({ variables: { input: { id, username } }, onCompleted: onDeleted });
  }
  return (
    <form onSubmit={submit}>
      <h2>Delete the account</h2>
      <p>
        This deletes all posts of <b>{username}</b> with their comments and likes, and what they wrote on the posts of
        others. It cannot be undone.
      </p>
      <label htmlFor="confirmation">
        Type <b>{username}</b> to confirm
      </label>
      <input
        id="confirmation"
        autoComplete="off"
        autoCapitalize="none"
        spellCheck={false}
        value={typed}
        onChange={(event) => { setTyped(event.target.value); }}
      />
      <ErrorNote error={remove.error} />
      <button type="submit" className="button danger" disabled={typed !== username} aria-busy={remove.busy}>
        {remove.busy ? "Deleting…" : "Delete the account"}
      </button>
    </form>
  );
}
