import { expect, test } from "vitest";
import { invalidTags, tagsOf } from "./tags";

test.each([
  ["", []],
  ["Go, cosmos-db  go", ["go", "cosmos-db"]],
  ["#brot,\t東京,", ["brot", "東京"]],
])("the tags of %j", (text, tags) => {
  expect(tagsOf(text)).toEqual(tags);
});

test.each([
  ["go, café, हिन्दी, १२, a-b", undefined],
  ["a b c d e f", "at most 5"],
  ["c++", "“c++”"],
  ["-", "“-”"],
  ["x".repeat(31), "up to 30"],
])("what is wrong with %j", (text, message) => {
  if (message === undefined) expect(invalidTags(text)).toBeUndefined();
  else expect(invalidTags(text)).toContain(message);
});
