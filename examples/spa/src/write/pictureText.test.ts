import { expect, test } from "vitest";
import { changed, endOf, hasPlaceholder, inserted, placeholderOf, removed, withoutPlaceholders } from "./pictureText";

const address = placeholderOf(7);
const picture = `![Uploading…](${address})`;

test.each([
  ["an empty text", "|", `${picture}\n\n`],
  ["the end", "One.|", `One.\n\n${picture}\n\n`],
  ["a new line", "One.\n|", `One.\n\n${picture}\n\n`],
  ["an empty line between paragraphs", "One.\n\n|\n\nTwo.", `One.\n\n${picture}\n\nTwo.`],
  ["the beginning", "|Two.", `${picture}\n\nTwo.`],
  ["within a line", "One. |Two.", `One. \n\n${picture}\n\nTwo.`],
])("a picture at %s is a paragraph", (_, text, want) => {
  expect(inserted(text.replace("|", ""), text.indexOf("|"), address)).toBe(want);
});

test.each(["A loom", "brackets ] and [", "a \\ and *stars*", "two\nlines ", "`code` <b> &amp; ![x](y)"])(
  "the description %j can be changed again, and removed", (alt) => {
    const text = inserted("One.", 4, address);
    const described = changed(text, address, alt, "/files/a.jpg");
    expect(described).not.toBe(text);
    expect(hasPlaceholder(described)).toBe(false);
    expect(endOf(described, "/files/a.jpg")).toBe(described.length - 2);
    expect(changed(described, "/files/a.jpg", "x")).toBe("One.\n\n![x](/files/a.jpg)\n\n");
    expect(removed(described, "/files/a.jpg")).toBe("One.\n\n");
  },
);

test("of two pictures only the one at the address changes", () => {
  const text = "![a](/files/1.png)\n\n![b](/files/2.png)";
  expect(changed(text, "/files/2.png", "c")).toBe("![a](/files/1.png)\n\n![c](/files/2.png)");
  expect(changed(text, "/files/3.png", "c")).toBe(text);
  expect(removed(text, "/files/1.png")).toBe("![b](/files/2.png)");
});

test("pictures whose upload has not ended are taken away", () => {
  const text = `One.\n\n![A loom](${placeholderOf(1)})\n\nTwo.\n\n![](${placeholderOf(12)})\n\n![](/files/1.png)`;
  expect(hasPlaceholder(text)).toBe(true);
  expect(withoutPlaceholders(text)).toBe("One.\n\nTwo.\n\n![](/files/1.png)");
});
