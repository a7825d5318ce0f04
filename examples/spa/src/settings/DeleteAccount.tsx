import { useState, type SubmitEvent } from "react";
import { graphql, useMutation } from "react-relay/hooks";
import type { DeleteAccountMutation } from "../__generated__/DeleteAccountMutation.graphql";
import { signOut } from "../session/session";
import { useAction } from "../session/useAction";
import { ErrorNote } from "../ui/ErrorNote";

const mutation = graphql`
  mutation DeleteAccountMutation($input: DeleteUserInput!) {
    deleteUser(input: $input) {
      deletedUserId
    }
  }
`;

/** Deletes the account, after the viewer has typed its username. */
export function DeleteAccount({ username }: { username: string }) {
  const [typed, setTyped] = useState("");
  const remove = useAction(useMutation<DeleteAccountMutation>(mutation));

  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (typed === username) remove.run({ variables: { input: { username } }, onCompleted: signOut });
  }
  return (
    <form onSubmit={submit}>
      <h2>Delete the account</h2>
      <p>
        This deletes your posts with their comments and likes, and your comments and likes on the posts of others. It
        cannot be undone.
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
        {remove.busy ? "Deleting…" : "Delete my account"}
      </button>
    </form>
  );
}
