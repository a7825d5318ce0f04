import { expect, expectAccessible, signInAs, test } from "./fixtures";
import { onSearch, type Variables } from "./searching";

test("searches as one types, after a pause, and marks what matches", async ({ page }) => {
  const searches: Variables[] = [];
  await onSearch(page, (variables) => {
    searches.push(variables);
    const snippet = "He [rides] a <b>red</b> [bicycle] 🚲 to the [bicycles] of 東京.";
    return { posts: [{ title: "By bicycle", snippet, tags: ["travel"] }] };
  });
  await page.clock.install();
  await page.goto("/");
  await page.getByRole("link", { name: "Search" }).click();
  const box = page.getByRole("search").getByLabel("Search the posts");
  await expect(box).toBeFocused();
  await expect(page).toHaveTitle("Search · Byline");
  await expect(page.getByText("Quotes keep words together")).toBeVisible();
  await page.clock.pauseAt(Date.now() + 60_000);
  await box.pressSequentially("ride bicycle");
  await page.clock.runFor(249);
  await expect(page).toHaveURL(/\/search$/);
  await page.clock.runFor(1);
  await page.clock.resume();
  const post = page.getByRole("article");
  await expect(post.locator("mark")).toHaveText(["rides", "bicycle", "bicycles"]);
  await expect(post).toContainText("He rides a <b>red</b> bicycle 🚲 to the bicycles of 東京.");
  await expect(page.getByRole("status").filter({ hasText: "1 post found." })).toBeAttached();
  await expect(page).toHaveURL(/\/search\?q=ride\+bicycle$/);
  await expect(page).toHaveTitle("ride bicycle · Search · Byline");
  await expect(box).toBeFocused();
  expect(searches).toEqual([{ query: "ride bicycle" }]); // once
  await box.press("End");
  await box.pressSequentially(" ");
  await box.press("Enter");
  expect(searches).toHaveLength(1); // a space changes nothing
  await page.goBack(); // the page has one entry in the history
  await expect(page).toHaveURL(/\/$/);
});

test("an older response never replaces a newer one, and results stay until the next are there", async ({ page }) => {
  const held: Record<string, () => void> = {};
  await onSearch(page, async ({ query }) => {
    await new Promise<void>((resolve) => (held[query] = resolve));
    return { posts: [{ title: `About ${query}`, snippet: `[${query}]` }] };
  });
  await page.goto("/search");
  const box = page.getByRole("searchbox");
  const title = page.getByRole("article").getByRole("heading");
  const search = async (query: string) => {
    await box.fill(query);
    await expect.poll(() => query in held).toBe(true);
  };
  await search("one");
  held.one?.();
  await expect(title).toHaveText("About one");
  await search("two");
  await search("three");
  await expect(title).toHaveText("About one");
  await expect(page.locator("[aria-busy=true]")).toBeVisible();
  held.three?.();
  await expect(title).toHaveText("About three");
  await expect(page.locator("[aria-busy=true]")).toHaveCount(0);
  held.two?.();
  await search("four");
  held.four?.();
  await expect(title).toHaveText("About four");
});

test("the key / opens the search and goes to its box, but not where one types", async ({ page }) => {
  await signInAs(page, "ada");
  await page.goto("/write");
  await page.getByLabel("Title").fill("Either");
  await page.getByLabel("Title").press("End");
  await page.keyboard.type("/or");
  await expect(page.getByLabel("Title")).toHaveValue("Either/or");
  await page.getByRole("link", { name: "Byline" }).focus();
  await page.keyboard.press("Control+/");
  await expect(page).toHaveURL(/\/write$/);
  await page.keyboard.press("/");
  const box = page.getByRole("searchbox");
  await expect(box).toBeFocused();
  await expect(box).toHaveValue("");
  await page.keyboard.type("a/b");
  await expect(box).toHaveValue("a/b");
  await page.getByRole("link", { name: "Byline" }).focus();
  await page.keyboard.press("/");
  await expect(box).toBeFocused();
  await page.keyboard.type("c"); // replaces what was there
  await expect(box).toHaveValue("c");
});

test("order, tag and author are parts of the address", async ({ page }) => {
  const searches: Variables[] = [];
  await onSearch(page, (variables) => {
    searches.push(variables);
    return { posts: [{ title: "Found", snippet: "[dough]" }] };
  });
  await page.clock.install();
  await page.goto("/tags/bread");
  await page.getByRole("link", { name: "Search in these posts" }).click();
  await expect(page).toHaveURL(/\/search\?tag=bread$/);
  await page.getByRole("searchbox").fill("dough");
  await expect(page.getByText("Only posts with the tag #bread")).toBeVisible();
  await expect(page.getByRole("article")).toBeVisible();
  await page.clock.pauseAt(Date.now() + 60_000); // the pause after "doughs" does not end
  await page.getByRole("searchbox").fill("doughs");
  await page.getByRole("link", { name: "Newest" }).click();
  await page.clock.resume();
  await expect(page.getByRole("link", { name: "Newest" })).toHaveAttribute("aria-current", "true");
  await expect(page.getByRole("link", { name: "Best match" })).not.toHaveAttribute("aria-current");
  await page.getByRole("link", { name: "Search all posts" }).click();
  await expect(page.getByText("Only posts")).toHaveCount(0);
  await expect(page).toHaveURL(/\/search\?q=doughs&order=newest$/);
  await expect.poll(() => searches).toEqual([
    { query: "dough", tag: "bread" },
    { query: "doughs", order: "NEWEST", tag: "bread" },
    { query: "doughs", order: "NEWEST" },
  ]);
  await page.goto("/authors/grace");
  await page.getByRole("link", { name: "Search in these posts" }).click();
  await page.getByRole("searchbox").fill("dough");
  await expect(page.getByText("Only posts of one author")).toBeVisible();
  await expect.poll(() => searches.at(-1)?.author).toMatch(/^[\w-]+$/);
});

test("more posts load, and going back keeps them and the position", async ({ page }) => {
  let searches = 0;
  await onSearch(page, ({ after = "0" }) => {
    searches++;
    const posts = Array.from({ length: 10 }, (_, i) => ({ title: `Post ${Number(after) + i}`, snippet: "A [text]." }));
    return { posts, hasNextPage: Number(after) < 20 };
  });
  await page.goto("/search?q=text");
  const posts = page.getByRole("article");
  await expect(posts.first()).toBeVisible();
  await expect(page.getByRole("status").filter({ hasText: "More than 10 posts found." })).toBeAttached();
  await posts.nth(9).scrollIntoViewIfNeeded();
  await posts.nth(19).scrollIntoViewIfNeeded();
  await expect(posts).toHaveCount(30);
  await posts.nth(22).scrollIntoViewIfNeeded();
  const scrolled = await page.evaluate(() => scrollY);
  await posts.nth(22).getByRole("link", { name: "Ada Lovelace" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "ada" })).toBeFocused();
  await page.goBack();
  await expect(posts.nth(22)).toBeInViewport();
  expect(Math.abs((await page.evaluate(() => scrollY)) - scrolled)).toBeLessThan(300);
  await expect(page.getByRole("searchbox")).toHaveValue("text");
  await expect(page.getByRole("searchbox")).not.toBeFocused();
  expect(searches).toBe(3);
});

test.describe("what cannot be searched", () => {
  test.use({ expectedErrors: /GatewayError/ }); // React logs what an error boundary has caught
  test("without results it says what to try, and with an error what is wrong, and goes on", async ({ page }) => {
    const invalid = { message: "needs a word that is not excluded",
      extensions: { code: "BAD_USER_INPUT", field: "query", reason: "FORMAT" } };
    const missing = { message: "this server has no full-text search", extensions: { code: "BAD_USER_INPUT" } };
    await onSearch(page, ({ query }) => {
      if (query === "-race") return { error: invalid };
      if (query === "nowhere") return { error: missing };
      return { posts: query === "race" ? [{ title: "Found", snippet: "A [race]." }] : [] };
    });
    await page.goto("/search?q=nothing");
    await expect(page.getByText("No posts match")).toBeVisible();
    const box = page.getByRole("searchbox");
    await box.fill("-race");
    await expect(page.getByRole("alert")).toHaveText("Query: needs a word that is not excluded.");
    await expect(box).toHaveAccessibleDescription("Query: needs a word that is not excluded.");
    await expect(box).toBeVisible();
    await expectAccessible(page);
    await box.fill("race");
    await expect(page.getByRole("article")).toBeVisible();
    await expect(page.getByRole("alert")).toHaveCount(0);
    await box.fill("nowhere");
    await expect(page.getByRole("alert")).toHaveText("This server has no full-text search.");
    await box.fill("");
    await expect(page.getByText("Quotes keep words together")).toBeVisible();
    await expect(page).toHaveURL(/\/search$/);
  });
});
