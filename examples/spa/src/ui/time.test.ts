import { expect, test } from "vitest";
import { ago } from "./Time";

const now = new Date("2026-11-26T12:00:00Z");

test.each([
  ["2026-11-26T11:59:40Z", "just now"],
  ["2026-11-26T12:00:30Z", "just now"], // a clock that is ahead
  ["2026-11-26T11:55:00Z", "5 minutes ago"],
  ["2026-11-26T09:00:00Z", "3 hours ago"],
  ["2026-11-25T11:00:00Z", "yesterday"],
  ["2026-11-16T12:00:00Z", "Nov 16, 2026"],
])("%s", (date, text) => {
  expect(ago(new Date(date), now)).toBe(text);
});
