const prefix = "pending:";

/** The id of a comment until the gateway has given it one. */
export const pendingId = (key: string) => prefix + key;
export const isPending = (id: string) => id.startsWith(prefix);

interface Comment {
  readonly id: string;
  readonly content: string;
  readonly author: { readonly id: string };
}

/** Leaves out comments that are being sent and that a subscription has already delivered. */
export function withoutConfirmed<C extends Comment>(comments: readonly C[]): C[] {
  const same = (a: Comment, b: Comment) => a.content === b.content && a.author.id === b.author.id;
  return comments.filter((c) => !isPending(c.id) || !comments.some((o) => !isPending(o.id) && same(o, c)));
}
