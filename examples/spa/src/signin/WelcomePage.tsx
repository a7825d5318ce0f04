import { useState, type SubmitEvent } from "react";
import { graphql, useMutation } from "react-relay/hooks";
import { Redirect } from "wouter";
import { useSearch } from "wouter/use-browser-location";
import type { WelcomePageMutation } from "../__generated__/WelcomePageMutation.graphql";
import { PageHeading } from "../app/PageHeading";
import { invalidFields } from "../network/errors";
import { demoName, signedIn } from "../session/session";
import { useViewer } from "../session/useViewer";
import { UsernameField } from "../settings/UsernameField";
import { ErrorNote } from "../ui/ErrorNote";
import { SubmitButton } from "../ui/SubmitButton";
import { useDraft } from "../ui/useDraft";
import { destination } from "./destination";

const mutation = graphql`
  mutation WelcomePageMutation($input: CreateUserInput!) {
    createUser(input: $input) {
      user {
        id
        username
        displayName
        avatarUrl
      }
    }
  }
`;

/** Where a new user chooses a username. */
export default function WelcomePage() {
  const page = destination(useSearch());
  const viewer = useViewer();
  const { draft, change, withKey, discard } = useDraft("user", { username: demoName() });
  const [commit, busy] = useMutation<WelcomePageMutation>(mutation);
  const [error, setError] = useState<unknown>();
  if (!signedIn || viewer) return <Redirect to={signedIn ? page : "/signin"} replace />;

  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (busy) return;
    setError(undefined);
    const { username, key } = withKey();
    commit({
      variables: { input: { username, idempotencyKey: key } },
      updater: (store) => {
        const user = store.getRootField("createUser").getLinkedRecord("user");
        store.getRoot().setLinkedRecord(user, "viewer");
      },
      onCompleted: discard, // and the viewer, who is known now, is redirected
      onError: setError,
    });
  }
  return (
    <section className="page">
      <PageHeading title="Welcome" />
      <p>Choose the name that will stand beside everything you write. You can change it later.</p>
      <form onSubmit={submit}>
        <UsernameField
          value={draft.username}
          onChange={(username) => { change({ username }); }}
          invalid={invalidFields(error).has("username")}
        />
        <ErrorNote error={error} />
        <SubmitButton busy={busy}>{busy ? "One moment…" : "Begin"}</SubmitButton>
      </form>
    </section>
  );
}
