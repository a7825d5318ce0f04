import { buildSchema, type GraphQLEnumType } from "graphql";
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { duration, invalidFields, GatewayError, messageOf } from "./errors";

const error = (...errors: { message: string; extensions: object }[]) => new GatewayError(errors);

test.each([
  [{ code: "CONFLICT", field: "username", reason: "TAKEN" }, "This username is taken."],
  [{ code: "CONFLICT", field: "version", reason: "OUTDATED" }, "Someone changed this at the same time. Try again."],
  [{ code: "CONFLICT", field: "idempotencyKey", reason: "KEY_USED" }, "Secret."],
  [{ code: "THROTTLED", retryAfterMs: 7_200_000 }, "That was too often. Try again in 2 hours."],
  [{ code: "INTERNAL", requestId: "ab12" }, "The server made a mistake (request ab12). Try again."],
  [{ code: "FORBIDDEN" }, "You are not allowed to do this."],
])("%o", (extensions, message) => {
  expect(messageOf(error({ message: "secret", extensions }))).toBe(message);
});

test("every code of the schema has a message", () => {
  const schema = buildSchema(readFileSync("schema.graphql", "utf8"));
  const codes = (schema.getType("ErrorCode") as GraphQLEnumType).getValues().map(({ name }) => name);
  const unknown = messageOf(error({ message: "x", extensions: { code: "ANOTHER" } }));
  const without = codes.filter((code) => messageOf(error({ message: "x", extensions: { code } })) === unknown);
  expect(without).toEqual(["INTERNAL"]);
});

test("every invalid field has its message", () => {
  const invalid = (field: string, message: string) => ({ message, extensions: { code: "BAD_USER_INPUT", field } });
  const both = error(invalid("title", "must not be blank"), invalid("content", "must not be blank"));
  expect(messageOf(both)).toBe("Title: must not be blank. Text: must not be blank.");
  expect(invalidFields(both)).toEqual(new Set(["title", "content"]));
});

test.each([[900, "1 second"], [1001, "2 seconds"], [60_000, "1 minute"], [90_000, "2 minutes"], [86_400_000, "1 day"]])(
  "%d ms", (ms, text) => { expect(duration(ms)).toBe(text); },
);
