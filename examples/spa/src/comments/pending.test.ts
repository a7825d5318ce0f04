import { expect, test } from "vitest";
import { pendingId, withoutConfirmed } from "./pending";

const comment = (id: string, content: string, author = "ada") => ({ id, content, author: { id: author } });

test("a comment that the subscription delivers before the response is shown once", () => {
  const pending = comment(pendingId("k"), "Hello");
  const delivered = comment("1", "Hello");
  expect(withoutConfirmed([pending])).toEqual([pending]);
  expect(withoutConfirmed([delivered, pending])).toEqual([delivered]);
  const others = [comment("2", "Hello", "grace"), comment("3", "Hi")];
  expect(withoutConfirmed([pending, ...others])).toEqual([pending, ...others]);
});
