export const maxTags = 5;

/** The tags that an author has typed, separated by commas or spaces, each once. */
export function tagsOf(text: string) {
  const tags = text.normalize("NFC").toLowerCase().split(/[\s,]+/u).map((tag) => tag.replace(/^#/, ""));
  return [...new Set(tags.filter((tag) => tag !== ""))];
}

export const tagText = (tags: readonly string[]) => tags.join(", ");

/** What is wrong with the tags that an author has typed, which the gateway would refuse. */
export function invalidTags(text: string) {
  const tags = tagsOf(text);
  const wrong = tags.find((tag) => !/^(?=.*[\p{L}\p{Nd}])[\p{L}\p{M}\p{Nd}-]{1,30}$/u.test(tag));
  if (wrong !== undefined) return `“${wrong}” cannot be a tag: use up to 30 letters, digits and hyphens.`;
  return tags.length > maxTags ? `A post has at most ${maxTags} tags.` : undefined;
}
