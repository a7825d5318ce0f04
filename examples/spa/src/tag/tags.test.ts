import { expect, test } from "vitest";
import { invalidTags, tagsOf } from "./tags";

test.each([
  ["", []],
  ["Go, cosmos-db,  go", ["Go", "cosmos-db"]],
  ["Web Dev, web_dev, C#, #brot,\t東京,", ["Web Dev", "C#", "brot", "東京"]],
  ["پارسی، نرم\u200cافزار", ["پارسی", "نرم\u200cافزار"]],
])("the tags of %j", (text, tags) => {
  expect(tagsOf(text)).toEqual(tags);
});

test.each([
  ["go, café, हिन्दी, १२, a-b", undefined],
  ["c++, c#, node.js, web dev, l·l", undefined],
  ["d_123, צה״ל, نرم\u200cافزار, .NET, m²", undefined],
  ["a, b, c, d, e, f", "at most 5"],
  ["a/b", "“a/b”"],
  ["a\u200bb", "cannot be a tag"],
  ["-", "“-”"],
  ["x".repeat(31), "up to 30"],
])("what is wrong with %j", (text, message) => {
  if (message === undefined) expect(invalidTags(text)).toBeUndefined();
  else expect(invalidTags(text)).toContain(message);
});
