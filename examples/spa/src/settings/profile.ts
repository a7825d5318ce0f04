import { uploadOf } from "../pictures/address";

interface User {
  readonly username: string;
  readonly displayName: string;
  readonly avatarUrl: string | null | undefined;
  readonly bio: string | null | undefined;
}

/** The fields of the form for a user. The name is empty if it is the username. */
export function profileOf({ username, displayName, avatarUrl, bio }: User) {
  return {
    username,
    displayName: displayName === username ? "" : displayName,
    avatarUrl: avatarUrl ?? "",
    bio: bio ?? "",
  };
}

type Profile = ReturnType<typeof profileOf>;

/** The profile with another username. The picture that the gateway has of a username's initial changes with it. */
export const renamed = (profile: Profile, username: string): Profile => ({
  ...profile,
  username,
  avatarUrl: profile.avatarUrl === pictureOf(profile.username) ? pictureOf(username) : profile.avatarUrl,
});

/** The address of the picture that the gateway has of a username's initial. */
export const pictureOf = (username: string) => `/avatars/${username}.svg`;

/** The fields that differ, for the gateway, which is told of no others: null takes a value away. */
export function changed(saved: Profile, profile: Profile) {
  const names = Object.keys(profile) as (keyof Profile)[];
  const { avatarUrl, ...input } = Object.fromEntries(
    names.filter((name) => profile[name] !== saved[name]).map((name) => [name, profile[name].trim() || null]),
  );
  if (avatarUrl === undefined) return input;
  const avatar = uploadOf(avatarUrl ?? "");
  return { ...input, ...(avatar ? { avatar } : { avatarUrl }) };
}
