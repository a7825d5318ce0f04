import { expect, test } from "vitest";
import { partsOf } from "./parts";

const marked = (text: string, ...matches: [number, number][]) =>
  partsOf(text, matches.map(([start, end]) => ({ start, end })))
    .map(({ text, match }) => (match ? `[${text}]` : text)).join("|");

test.each([
  ["A red bicycle", [], "A red bicycle"],
  ["A red bicycle", [[2, 5], [6, 13]], "A |[red]| |[bicycle]"],
  ["red bicycle", [[0, 3], [3, 11]], "[red]|[ bicycle]"],
  ["🚲 rides, 𝒲 rides", [[3, 8], [13, 18]], "🚲 |[rides]|, 𝒲 |[rides]"], // two code units each
  ["<b>rides</b>", [[3, 8]], "<b>|[rides]|</b>"],
  ["", [], ""],
] as [string, [number, number][], string][])("the parts of %j with %j", (text, matches, parts) => {
  expect(marked(text, ...matches)).toBe(parts);
});
