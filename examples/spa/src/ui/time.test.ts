import { expect, test } from "vitest";
import { ago, onDay } from "./Time";

const now = new Date("2026-11-26T12:00:00"); // local, as all of these

test.each([
  ["2026-11-26T11:59:40", "just now"],
  ["2026-11-26T12:00:30", "just now"], // a clock that is ahead
  ["2026-11-26T11:55:00", "5 minutes ago"],
  ["2026-11-26T09:00:00", "3 hours ago"],
  ["2026-11-25T11:00:00", "yesterday"],
  ["2026-11-24T23:00:00", "2 days ago"],
  ["2026-11-16T12:00:00", "Nov 16, 2026"],
])("%s is %s", (date, text) => {
  expect(ago(new Date(date), now)).toBe(text);
});

test.each([
  ["2026-11-26T11:59:40", "today"],
  ["2026-11-26T00:00:00", "today"],
  ["2026-11-27T00:00:30", "today"], // a clock that is ahead
  ["2026-11-25T23:59:00", "yesterday"],
  ["2026-11-24T23:00:00", "Nov 24, 2026"],
])("since %s is since %s", (date, text) => {
  expect(onDay(new Date(date), now)).toBe(text);
});
