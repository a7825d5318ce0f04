import { expect, test } from "vitest";
import { changed, profileOf } from "./profile";

const ada = { username: "ada", displayName: "ada", avatarUrl: null, bio: "Engines." };

test("the username is not kept as a name", () => {
  expect(profileOf(ada)).toEqual({ username: "ada", displayName: "", avatarUrl: "", bio: "Engines." });
});

test("only what has changed is sent, and what is empty is taken away", () => {
  const saved = profileOf(ada);
  expect(changed(saved, saved)).toEqual({});
  expect(changed(saved, { ...saved, displayName: "Ada Lovelace ", bio: " " })).toEqual({
    displayName: "Ada Lovelace",
    bio: null,
  });
});
