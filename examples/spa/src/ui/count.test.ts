import { expect, test } from "vitest";
import { count } from "./count";

test.each([
  [0, "0 likes"],
  [1, "1 like"],
  [2000, "2,000 likes"],
])("%d", (n, text) => {
  expect(count(n, "like")).toBe(text);
});
