import { expect, expectAccessible, signInAs, test } from "./fixtures";

// Each page, in both color schemes. SHOTS is a folder for pictures of them.
const shots = process.env.SHOTS;

test.beforeEach(async ({ page }) => {
  if (!shots) return;
  await page.goto("/nowhere");
  await page.evaluate(() => document.fonts.ready); // it is in the cache now
});

test.afterEach(async ({ page }, { title, project }) => {
  for (const colorScheme of ["light", "dark"] as const) {
    await page.emulateMedia({ colorScheme });
    await expectAccessible(page);
    if (shots) await page.screenshot({ path: `${shots}/${title}-${project.name}-${colorScheme}.png` });
  }
});

test("feed", async ({ page }) => {
  await page.goto("/");
  await expect(page.getByRole("article")).toHaveCount(10);
  await expect(page).toHaveTitle("Byline");
});

test("post", async ({ page }) => {
  await page.goto("/");
  await page.getByRole("article").first().getByRole("heading").getByRole("link").click();
  await expect(page.getByRole("heading", { name: /comments?$/ })).toBeVisible();
  await expect(page.getByRole("link", { name: "Sign in" }).last()).toBeVisible();
});

test("post, signed in", async ({ page, gateway }) => {
  await signInAs(page, "ada");
  const text = "It weaves *algebraic patterns*.\n\n## Looms\n\n> The loom weaves flowers.\n\n- cards\n- `mill`\n\n" +
    "| part | wheels |\n|---|---:|\n| mill | 1,000 |\n| store | 50,000 |";
  const { id, slug } = await gateway.publish("ada", "On the Analytical Engine", text);
  await gateway.comment("grace", id, "And both are programmed by cards.");
  await page.goto(`/posts/${slug}`);
  await expect(page.getByRole("link", { name: "Edit" })).toBeVisible();
  await page.getByLabel("Write a comment").fill("The cards are the better part of it.");
});

test("author", async ({ page }) => {
  await page.goto("/authors/grace");
  await expect(page.getByRole("heading", { level: 1, name: "grace" })).toBeVisible();
  await expect(page.getByRole("article").first()).toBeVisible();
});

test("tag", async ({ page }) => {
  await page.goto("/tags/bread");
  await expect(page.getByRole("heading", { level: 1, name: "#bread" })).toBeVisible();
  await expect(page.getByRole("article").first()).toBeVisible();
});

test("search", async ({ page }) => {
  await page.goto("/search?q=doughs+crust");
  await expect(page.getByRole("article").locator("mark").first()).toBeVisible();
});

test("writing", async ({ page }) => {
  await signInAs(page, "ada");
  await page.goto("/write");
  await page.getByLabel("Title").fill("What a lease teaches about time");
  await page.getByLabel("Text").fill("A lease is a **promise** with an end.\n\n## Numbers\n\nSo every write has one.");
  await expect(page.getByRole("region", { name: "Preview" }).getByRole("heading")).toBeVisible();
});

test("settings", async ({ page }) => {
  await signInAs(page, "ada");
  await page.goto("/settings");
  await expect(page.getByLabel("Username")).toHaveValue("ada");
});

test("menu", async ({ page }) => {
  await signInAs(page, "ada");
  await page.goto("/");
  await expect(page.getByRole("article")).toHaveCount(10);
  await page.getByRole("button", { name: /, menu$/ }).click();
  await expect(page.getByRole("link", { name: "Settings" })).toBeVisible();
});

test("sign-in", async ({ page }) => {
  await page.goto("/signin");
  await expect(page.getByRole("button", { name: "ada" })).toBeVisible();
});

test("welcome", async ({ page }) => {
  await signInAs(page, "someone-new");
  await page.goto("/welcome");
  await expect(page.getByRole("heading", { name: "Welcome" })).toBeVisible();
});

test("not found", async ({ page }) => {
  await page.goto("/nowhere");
  await expect(page.getByRole("heading", { name: "Not found" })).toBeVisible();
});
