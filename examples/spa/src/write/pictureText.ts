// The pictures in a text. While one is being uploaded, it stands there with an address of its own.

const uploading = "#uploading-";
const pending = /!\[(?:\\.|[^\]\\])*\]\(#uploading-\d+\)\n*/g;

/** The address of a picture that is being uploaded. */
export const placeholderOf = (n: number) => `${uploading}${n}`;

export const hasPlaceholder = (text: string) => text.search(pending) >= 0;

/** The text without the pictures that were being uploaded, such as when the page was left. */
export const withoutPlaceholders = (text: string) => text.replaceAll(pending, "");

const markdown = (alt: string, address: string) =>
  `![${alt.replaceAll(/[\\[\]`*_<&!]/g, "\\$&").replaceAll(/\s+/g, " ")}](${address})`;

/** The text with a picture, as a paragraph of its own, at a position. */
export function inserted(text: string, position: number, address: string) {
  const [before, after] = [text.slice(0, position), text.slice(position)];
  const gap = (lines: RegExpExecArray | null) => "\n".repeat(Math.max(0, 2 - (lines?.[0].length ?? 0)));
  const start = before === "" ? "" : gap(/\n*$/.exec(before));
  return `${before}${start}${markdown("Uploading…", address)}${gap(/^\n*/.exec(after))}${after}`;
}

/** The text with another description, or another address, of a picture; the same if it does not have the picture. */
export function changed(text: string, address: string, alt: string, newAddress = address) {
  const found = find(text, address);
  return found ? text.slice(0, found.start) + markdown(alt, newAddress) + text.slice(found.end) : text;
}

/** Where a picture ends in the text; undefined if it does not have the picture. */
export const endOf = (text: string, address: string) => find(text, address)?.end;

/** The text without a picture, and the empty lines after it. */
export function removed(text: string, address: string) {
  const found = find(text, address);
  return found ? text.slice(0, found.start) + text.slice(found.end).replace(/^\n+/, "") : text;
}

function find(text: string, address: string) {
  for (const { 0: picture, 1: its, index } of text.matchAll(/!\[(?:\\.|[^\]\\])*\]\(([^()\s]*)\)/g)) {
    if (its === address) return { start: index, end: index + picture.length };
  }
  return undefined;
}
