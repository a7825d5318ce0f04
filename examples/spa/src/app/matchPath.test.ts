import { expect, test } from "vitest";
import { pathOfTag } from "../tag/tags";
import { matchPath } from "./matchPath";

test.each([
  ["/", "/", {}],
  ["/", "/posts", undefined],
  ["/posts/:slug", "/posts/a-title", { slug: "a-title" }],
  ["/posts/:slug", "/Posts/a-title/", { slug: "a-title" }],
  ["/posts/:slug", "/posts", undefined],
  ["/posts/:slug", "/posts/a-title/edit", undefined],
  ["/posts/:slug/edit", "/posts/a-title/edit", { slug: "a-title" }],
  ["/tags/:name", "/tags/a%2Fb", { name: "a/b" }],
  ["/tags/:name", "/tags/100%", { name: "100%" }], // not encoded
  ["*", "/anything/else", {}],
])("%s and the path %s", (pattern, path, params) => {
  expect(matchPath(pattern, path)).toEqual(params);
});

test.each(["go", "c++", "c#", "node.js", "web dev", "l'été", "نرم\u200cافزار", "日本語"])("the page of %s", (tag) => {
  const { pathname, hash } = new URL(pathOfTag(tag), "https://blog.example");
  expect(hash).toBe("");
  expect(matchPath("/tags/:name", pathname)).toEqual({ name: tag });
});
