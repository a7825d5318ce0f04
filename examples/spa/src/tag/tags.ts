export const maxTags = 5;

/** The page of a tag, in any spelling. */
export const pathOfTag = (name: string) => `/tags/${encodeURIComponent(name)}`;

/** Tags with the same key are the same tag to the gateway. */
const keyOf = (tag: string) => tag.normalize("NFKC").toLowerCase().replaceAll(/[\s_-]+/gu, "-");

/** The tags that an author has typed, separated by commas of any script or lines, each once, as it is spelled first. */
export function tagsOf(text: string) {
  const tags = text.normalize("NFC").split(/[,،、，\n]/u).map((tag) => tag.trim().replace(/^#\s*/, ""));
  const keys = tags.map(keyOf);
  return tags.filter((tag, i) => tag !== "" && keys.indexOf(keyOf(tag)) === i);
}

export const tagText = (tags: readonly string[]) => tags.join(", ");

const valid = /^(?=.*[\p{L}\p{N}])[\p{L}\p{M}\p{N}\p{Zs}._+#·'’׳״・\p{Join_Control}-]{1,30}$/u;

/** What is wrong with the tags that an author has typed. The gateway, which refuses it, knows more. */
export function invalidTags(text: string) {
  const tags = tagsOf(text);
  const wrong = tags.find((tag) => !valid.test(tag));
  if (wrong !== undefined) {
    return `“${wrong}” cannot be a tag: use up to 30 letters, digits, spaces and . _ - + # · '`;
  }
  return tags.length > maxTags ? `A post has at most ${maxTags} tags.` : undefined;
}
