import { expect, test } from "vitest";
import { destination } from "./destination";

test.each([
  ["?to=/posts/x", "/posts/x"],
  ["", "/"],
  ["?to=https://elsewhere.example", "/"],
  ["?to=//elsewhere.example", "/"],
  ["?to=/\\elsewhere.example", "/"],
  ["?to=/signin", "/"],
])("%s", (search, page) => {
  expect(destination(search)).toBe(page);
});
