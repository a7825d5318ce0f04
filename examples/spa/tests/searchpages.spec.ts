import { expect, expectAccessible, test } from "./fixtures";
import { onSearch } from "./searching";

// SHOTS is a folder for pictures of the pages.
const shots = process.env.SHOTS;

test("long words, right-to-left text and both color schemes", async ({ page, viewport }, { project }) => {
  const word = "Donaudampfschifffahrt".repeat(9);
  const posts = [
    { title: word, snippet: `${word} [${word}] ${word}`, tags: [word.slice(0, 30), "tag"] },
    { title: "שלום עולם", snippet: "כל [השלום] שבעולם, ועוד [שלום] אחד לסיום" },
    { title: "A red bicycle", snippet: "He [rides] the [red bicycle] to the mill: who asks why it is <i>red</i>?" },
  ];
  await onSearch(page, ({ query }) => ({ posts: query.length > 100 ? [] : posts }));
  for (const width of [viewport?.width ?? 1280, 390]) {
    await page.setViewportSize({ width, height: 844 });
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      for (const [name, query] of Object.entries({ found: "?q=ride&tag=bread", none: `?q=${word}`, empty: "" })) {
        await page.goto(`/search${query}`);
        await expect(page.locator(".search-results p").first()).toBeVisible();
        await expectAccessible(page);
        if (name === "found") await expect(page.locator("mark").nth(1)).toHaveCSS("direction", "rtl");
        const path = `${shots}/search-${name}-${project.name}-${width}-${colorScheme}.png`;
        if (shots) await page.screenshot({ path });
      }
    }
  }
});
