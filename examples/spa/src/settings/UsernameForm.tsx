import { useState, type SubmitEvent } from "react";
import { graphql, useMutation } from "react-relay/hooks";
import type { UsernameFormMutation } from "../__generated__/UsernameFormMutation.graphql";
import { invalidFields } from "../network/errors";
import { useAction } from "../session/useAction";
import { announce } from "../ui/announce";
import { ErrorNote } from "../ui/ErrorNote";
import { SubmitButton } from "../ui/SubmitButton";
import { UsernameField } from "./UsernameField";

const mutation = graphql`
  mutation UsernameFormMutation($input: UpdateUserInput!) {
    updateUser(input: $input) {
      user {
        id
        username
      }
    }
  }
`;

/** Changes the username, on everything that the user has written. */
export function UsernameForm({ username }: { username: string }) {
  const [value, setValue] = useState(username);
  const [saved, setSaved] = useState(false);
  const update = useAction(useMutation<UsernameFormMutation>(mutation));

  function submit(event: SubmitEvent) {
    event.preventDefault();
    setSaved(false);
    update.run({
      variables: { input: { username: value } },
      onCompleted: () => {
        setSaved(true);
        announce("Your username is changed.");
      },
    });
  }
  return (
    <form onSubmit={submit}>
      <h2>Your name</h2>
      <UsernameField value={value} onChange={setValue} invalid={invalidFields(update.error).has("username")} />
      <ErrorNote error={update.error} />
      <div className="actions">
        <SubmitButton busy={update.busy}>{update.busy ? "Saving…" : "Save"}</SubmitButton>
        {saved && !update.busy && <span>Saved. It is on everything that you have written.</span>}
      </div>
    </form>
  );
}
