import { expect, signInAs, test } from "./fixtures";

test("back and forward keep the scroll position, and more posts load as one scrolls", async ({ page }) => {
  await page.goto("/");
  await expect(page.getByRole("article")).toHaveCount(10);
  await page.getByRole("article").nth(9).scrollIntoViewIfNeeded();
  await expect(page.getByRole("article").nth(19)).toBeAttached();
  await page.getByRole("article").nth(14).scrollIntoViewIfNeeded();
  const scrolled = await page.evaluate(() => scrollY);
  const title = await page.getByRole("article").nth(14).getByRole("heading").textContent();
  await page.getByRole("article").nth(14).getByRole("heading").getByRole("link").click();
  await expect(page.getByRole("heading", { level: 1, name: title ?? "" })).toBeFocused();
  expect(await page.evaluate(() => scrollY)).toBe(0);
  await page.goBack();
  await expect(page.getByRole("article").nth(14)).toBeInViewport();
  expect(Math.abs((await page.evaluate(() => scrollY)) - scrolled)).toBeLessThan(300);
  await page.goForward();
  await expect(page.getByRole("heading", { level: 1, name: title ?? "" })).toBeVisible();
});

test("the code and the query of a page are requested together", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("alan", "At once");
  let release = () => {};
  await page.route("**/assets/PostPage-*.js", async (route) => {
    await new Promise<void>((resolve) => (release = resolve));
    await route.continue();
  });
  const response = () => page.waitForResponse((response) => response.url().includes(`slug%22%3A%22${slug}`));
  const heading = page.getByRole("heading", { level: 1, name: "At once" });

  await Promise.all([response(), page.goto(`/posts/${slug}`)]); // the first page
  release();
  await expect(heading).toBeVisible();
  await page.goto("/");
  await Promise.all([response(), page.getByRole("link", { name: "At once" }).click()]);
  release();
  await expect(heading).toBeFocused();
});

test("the front page has more than the newest hundred posts", async ({ page }) => {
  await page.goto("/");
  const posts = page.getByRole("article");
  await expect(async () => {
    await posts.last().scrollIntoViewIfNeeded();
    expect(await posts.count()).toBeGreaterThan(100);
  }).toPass();
  const links = posts.getByRole("heading").getByRole("link");
  const paths = await links.evaluateAll((all) => all.map((link) => link.getAttribute("href")));
  expect(paths.length).toBeGreaterThan(100);
  expect(new Set(paths).size).toBe(paths.length);
});

test("the keyboard alone reads, follows, likes and comments", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("alan", "By keys");
  await signInAs(page, "ada");
  await page.goto(`/posts/${slug}`);
  await expect(page.getByRole("heading", { name: "By keys" })).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("link", { name: "Skip to the content" })).toBeFocused();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab"); // the author
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: /^Follow(ing)? Alan/ })).toBeFocused();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: "Like" })).toBeFocused();
  await page.keyboard.press("Space");
  await expect(page.getByText("1 like", { exact: true })).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(page.getByRole("button", { name: "Bookmark" })).toBeFocused();
  await page.keyboard.press("Tab");
  await page.keyboard.type("Without a mouse.");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("listitem").filter({ hasText: "Without a mouse." })).not.toContainText("Sending…");
  await expect(page.getByRole("button", { name: "Comment", exact: true })).toBeFocused();
});

test("long words and right-to-left text stay within the page", async ({ page, gateway }) => {
  const word = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft";
  const { id, slug } = await gateway.publish("alan", `${word} ${word}`, `${word}${word}\n\nשלום עולם`);
  await gateway.comment("alan", id, "مرحبا بالعالم");
  await page.goto(`/posts/${slug}`);
  expect(await page.getByText("שלום עולם").evaluate(fromTheRight)).toBe(true);
  await expect(page.getByText("مرحبا بالعالم")).toHaveCSS("direction", "rtl");
  expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
});

/** Returns whether the text of a paragraph ends where the paragraph does. */
function fromTheRight(paragraph: Element) {
  const text = document.createRange();
  text.selectNodeContents(paragraph);
  return Math.abs(text.getBoundingClientRect().right - paragraph.getBoundingClientRect().right) < 2;
}
