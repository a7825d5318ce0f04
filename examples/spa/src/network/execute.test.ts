import { expect, test, vi } from "vitest";

vi.mock("../session/session", () => ({ token: () => null, refresh: () => null }));
vi.mock("./inlined", () => ({ inlinedResponse: () => undefined }));
const { isIncomplete } = await import("./execute");

const at = (...path: string[]) => [{ message: "x", path }];

test.each([
  ["no error", { data: { post: null } }, false],
  ["a part of a field", { data: { post: { comments: null } }, errors: at("post", "comments") }, false],
  ["a field that is null", { data: { user: null, viewerIsModerator: false }, errors: at("user") }, true],
  ["a field that a part made null", { data: { user: null }, errors: at("user", "posts") }, true],
  ["everything", { data: null, errors: at("feed") }, true],
  ["the request", { errors: [{ message: "x" }] }, true],
])("an error of %s", (_, body, incomplete) => {
  expect(isIncomplete(body)).toBe(incomplete);
});
