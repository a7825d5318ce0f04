interface Range {
  readonly start: number; // in UTF-16 code units, as all indexes of strings
  readonly end: number; // exclusive
}

/** Splits a text into its matches, which are in order and without overlaps, and what is between them. */
export function partsOf(text: string, matches: readonly Range[]) {
  const parts: { text: string; match: boolean }[] = [];
  let end = 0;
  for (const match of matches) {
    parts.push({ text: text.slice(end, match.start), match: false });
    parts.push({ text: text.slice(match.start, match.end), match: true });
    ({ end } = match);
  }
  parts.push({ text: text.slice(end), match: false });
  return parts.filter(({ text }) => text !== "");
}
