import { expect, test } from "vitest";
import { destination, originOf } from "./destination";

test.each([
  ["?to=/posts/x", "/posts/x"],
  ["", "/"],
  ["?to=https://elsewhere.example", "/"],
  ["?to=//elsewhere.example", "/"],
  ["?to=/\\elsewhere.example", "/"],
  ["?to=/\t/elsewhere.example", "/"],
  ["?to=/signin", "/"],
  ["?to=%2Fsearch%3Fq%3DC%2523%2B%2526%26order%3Dnewest", "/search?q=C%23+%26&order=newest"],
])("%s", (search, page) => {
  expect(destination(search)).toBe(page);
});

test.each([
  ["/tags/100%25", "", "/tags/100%25"],
  ["/search", "?q=C%23+%26&order=newest", "/search?q=C%23+%26&order=newest"],
  ["/signin", "?to=%2Fsearch%3Fq%3DC%2523", "/search?q=C%23"],
  ["/welcome", "?to=%2Fwrite", "/write"],
  ["/signin/callback", "?code=secret&state=1", "/"],
])("one returns from %s%s to %s", (pathname, search, page) => {
  expect(originOf({ pathname, search })).toBe(page);
});
