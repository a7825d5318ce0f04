import { expect, test } from "vitest";
import { pathOfSearch, searchOf, variablesOf } from "./address";

test.each([
  ["", undefined],
  ["?q=", undefined],
  ["?q=+&tag=bread", undefined],
  ["?q=red+bicycle", { query: "red bicycle" }],
  ["?q=%22red+bicycle%22+-car+&order=newest", { query: '"red bicycle" -car', order: "NEWEST" }],
  ["?q=a&order=oldest&tag=&page=2", { query: "a" }],
  ["?q=100%25&tag=c%23&author=VXNlcjox", { query: "100%", tag: "c#", author: "VXNlcjox" }],
])("the variables of %j", (parameters, variables) => {
  expect(variablesOf(parameters)).toEqual(variables);
});

test.each([{}, { q: "100% & more = +1 #?" }, { q: "été ", order: "newest", tag: "c++", author: "VXNlcjox" }])(
  "the address of %j",
  (search) => {
    const { pathname, search: parameters } = new URL(pathOfSearch(search), "https://blog.example");
    expect(pathname).toBe("/search");
    expect(searchOf(parameters)).toEqual(search);
  },
);

test("the address has no empty parameters", () => {
  expect(pathOfSearch({ q: "", tag: undefined })).toBe("/search");
});
