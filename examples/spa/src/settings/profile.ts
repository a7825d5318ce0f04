interface User {
  readonly username: string;
  readonly displayName: string;
  readonly avatarUrl: string | null | undefined;
  readonly bio: string | null | undefined;
}

/** The fields of the form for a user. The name is empty if it is the username. */
export function profileOf(user: User | null | undefined) {
  const { username = "", displayName = "", avatarUrl, bio } = user ?? {};
  return {
    username,
    displayName: displayName === username ? "" : displayName,
    avatarUrl: avatarUrl ?? "",
    bio: bio ?? "",
  };
}

type Profile = ReturnType<typeof profileOf>;

/** The fields that differ, for the gateway, which is told of no others: null takes a value away. */
export function changed(saved: Profile, profile: Profile) {
  const names = Object.keys(profile) as (keyof Profile)[];
  return Object.fromEntries(
    names.filter((name) => profile[name] !== saved[name]).map((name) => [name, profile[name].trim() || null]),
  );
}
