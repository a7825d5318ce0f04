import { useState, type SubmitEvent } from "react";
import { graphql, useFragment, useMutation } from "react-relay/hooks";
import type { ProfileForm_user$key } from "../__generated__/ProfileForm_user.graphql";
import type { ProfileFormMutation } from "../__generated__/ProfileFormMutation.graphql";
import { invalidFields } from "../network/errors";
import { useUploading } from "../pictures/upload";
import { useAction } from "../session/useAction";
import { announce } from "../ui/announce";
import { ErrorNote } from "../ui/ErrorNote";
import { SubmitButton } from "../ui/SubmitButton";
import { AvatarField } from "./AvatarField";
import { changed, pictureOf, profileOf, renamed } from "./profile";
import { UsernameField } from "./UsernameField";

const mutation = graphql`
  mutation ProfileFormMutation($input: UpdateUserInput!) {
    updateUser(input: $input) {
      user {
        id
        username
        displayName
        avatarUrl
        bio
      }
    }
  }
`;

/** Changes what readers see of the viewer, on everything that they have written. */
export function ProfileForm({ user }: { user: ProfileForm_user$key }) {
  const data = useFragment(
    graphql`
      fragment ProfileForm_user on User {
        username
        displayName
        avatarUrl
        bio
      }
    `,
    user,
  );
  const saved = profileOf(data);
  const [profile, setProfile] = useState(saved);
  const [done, setDone] = useState(false);
  const update = useAction(useMutation<ProfileFormMutation>(mutation));
  const uploading = useUploading();
  const invalid = invalidFields(update.error);

  function change(fields: Partial<typeof profile>) {
    setDone(false);
    setProfile({ ...profile, ...fields });
  }
  function submit(event: SubmitEvent) {
    event.preventDefault();
    if (uploading) return;
    const input = changed(saved, profile);
    const finish = () => {
      setDone(true);
      announce("Your profile is changed.");
    };
    if (Object.keys(input).length > 0) update.run({ variables: { input }, onCompleted: finish });
    else finish();
  }
  return (
    <form onSubmit={submit}>
      <h2>Your profile</h2>
      <UsernameField
        value={profile.username}
        onChange={(username) => { change(renamed(profile, username)); }}
        invalid={invalid.has("username")}
      />
      <label htmlFor="displayName">Name</label>
      <input
        id="displayName"
        dir="auto"
        autoComplete="name"
        maxLength={60}
        placeholder={profile.username}
        value={profile.displayName}
        aria-invalid={invalid.has("displayName")}
        onChange={(event) => { change({ displayName: event.target.value }); }}
      />
      <label htmlFor="avatarUrl">Picture</label>
      <AvatarField
        name={profile.displayName || profile.username}
        url={profile.avatarUrl}
        onChange={(avatarUrl) => { change({ avatarUrl }); }}
      />
      <input
        id="avatarUrl"
        inputMode="url"
        maxLength={500}
        pattern="https:\/\/.+|\/[^\/].*"
        value={profile.avatarUrl}
        aria-invalid={invalid.has("avatarUrl") || invalid.has("avatar")}
        aria-describedby="avatarUrl-hint"
        onChange={(event) => { change({ avatarUrl: event.target.value }); }}
      />
      <p id="avatarUrl-hint" className="hint">
        An address that begins with https://, or one of this site, such as {pictureOf(profile.username)}.
      </p>
      <label htmlFor="bio">About you</label>
      <textarea
        id="bio"
        dir="auto"
        maxLength={500}
        value={profile.bio}
        aria-invalid={invalid.has("bio")}
        onChange={(event) => { change({ bio: event.target.value }); }}
      />
      <ErrorNote error={update.error} />
      <div className="actions">
        <SubmitButton busy={update.busy || uploading}>{update.busy ? "Saving…" : "Save"}</SubmitButton>
        {done && !update.busy && <span>Saved. It is on everything that you have written.</span>}
      </div>
    </form>
  );
}
