import { expect, test } from "vitest";
import { changed, profileOf, renamed } from "./profile";

const ada = { username: "ada", displayName: "ada", avatarUrl: null, bio: "Engines." };

test("the username is not kept as a name", () => {
  expect(profileOf(ada)).toEqual({ username: "ada", displayName: "", avatarUrl: "", bio: "Engines." });
});

test("with the username its initial changes, but no other picture", () => {
  const profile = profileOf({ ...ada, avatarUrl: "/avatars/ada.svg" });
  expect(renamed(profile, "zoe").avatarUrl).toBe("/avatars/zoe.svg");
  expect(renamed(renamed(profile, ""), "ada")).toEqual(profile);
  const other = { ...profile, avatarUrl: "/avatars/loom.svg" };
  expect(renamed(other, "zoe")).toEqual({ ...other, username: "zoe" });
  expect(renamed(profileOf(ada), "zoe").avatarUrl).toBe("");
});

test("an uploaded picture is sent as an upload", () => {
  const saved = profileOf(ada);
  expect(changed(saved, { ...saved, avatarUrl: "/files/ada.1.jpg" })).toEqual({ avatar: "ada.1.jpg" });
  expect(changed(saved, { ...saved, avatarUrl: "/avatars/ada.svg" })).toEqual({ avatarUrl: "/avatars/ada.svg" });
  expect(changed({ ...saved, avatarUrl: "/files/ada.1.jpg" }, saved)).toEqual({ avatarUrl: null });
});

test("only what has changed is sent, and what is empty is taken away", () => {
  const saved = profileOf(ada);
  expect(changed(saved, saved)).toEqual({});
  expect(changed(saved, { ...saved, displayName: "Ada Lovelace ", bio: " " })).toEqual({
    displayName: "Ada Lovelace",
    bio: null,
  });
});
