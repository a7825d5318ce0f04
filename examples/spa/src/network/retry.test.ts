import { expect, test } from "vitest";
import { GatewayError, UnreachableError } from "./errors";
import { pauseAfter } from "./retry";

const refused = (extensions: object) => new GatewayError([{ message: "no", extensions }]);

test.each([
  ["no response", new UnreachableError("x"), 0, 500],
  ["no response, the fourth time", new UnreachableError("x"), 3, 4000],
  ["no response, for long", new UnreachableError("x"), 20, 8000],
  ["busy, without a time", refused({ code: "UNAVAILABLE" }), 0, 500],
  ["busy, with a time", refused({ code: "UNAVAILABLE", retryAfterMs: 1234 }), 0, 1234],
  ["throttled", refused({ code: "THROTTLED", retryAfterMs: 3000 }), 5, 3000],
  ["throttled for a day", refused({ code: "THROTTLED", retryAfterMs: 86_400_000 }), 0, undefined],
  ["written, but its response did not fit", refused({ code: "UNAVAILABLE", id: "x" }), 0, undefined],
  ["invalid", refused({ code: "BAD_USER_INPUT" }), 0, undefined],
  ["a conflict", refused({ code: "CONFLICT" }), 0, undefined],
  ["a mistake of the page", new TypeError("x"), 0, undefined],
])("%s", (_, error, attempt, ms) => {
  expect(pauseAfter(error, attempt, 0.5)).toBe(ms);
});
