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

test("author, signed in", async ({ page }) => {
  await signInAs(page, "ada");
  await page.goto("/authors/grace");
  await expect(page.getByRole("button", { name: /^Follow/ })).toBeVisible();
});

test("followers", async ({ page, gateway }) => {
  const author = "followed";
  const id = await gateway.join(author);
  await gateway.updateUser(author, { displayName: "مهاجر القيرواني" });
  for (const user of ["alan", "grace", "ada"]) await gateway.follow(user, id);
  const long = "follower".padEnd(30, "x");
  await gateway.join(long);
  await gateway.updateUser(long, { displayName: "Wolfeschlegelsteinhausenbergerdorff".padEnd(60, "f") });
  await gateway.follow(long, id);
  await signInAs(page, "ada");
  await page.goto(`/authors/${author}/followers`);
  await expect(page.getByRole("listitem")).toHaveCount(4);
});

test("following nobody", async ({ page, gateway }) => {
  const reader = "alone";
  await gateway.join(reader);
  await signInAs(page, reader);
  await page.goto(`/authors/${reader}/following`);
  await expect(page.getByRole("link", { name: "Read the newest posts" })).toBeVisible();
});

test("home", async ({ page, gateway }) => {
  const author = "writer";
  const reader = "reader";
  const id = await gateway.join(author);
  await gateway.join(reader);
  for (const n of [1, 2, 3]) await gateway.publish(author, `Of looms, ${n}`, "The loom weaves flowers. ".repeat(9));
  await gateway.follow(reader, id);
  await signInAs(page, reader);
  await page.goto("/home");
  await expect(async () => {
    await page.reload(); // the home has a follow a moment later
    await expect(page.getByRole("article")).toHaveCount(3, { timeout: 500 });
  }).toPass();
});

const invitations = { home: "Follow somebody", bookmarks: "Bookmark a post", liked: "Like a post" };
for (const [path, text] of Object.entries(invitations)) {
  test(`${path}, empty`, async ({ page, gateway }) => {
    const reader = `alone-${path}`;
    await gateway.join(reader);
    await signInAs(page, reader);
    await page.goto(`/${path}`);
    await expect(page.getByText(text)).toBeVisible();
  });
}

test("bookmarks", async ({ page, gateway }) => {
  const reader = "saver";
  await gateway.join(reader);
  for (const title of ["Saved for later", "Saved, too"]) {
    const { id } = await gateway.publish("ada", title, "The loom weaves flowers. ".repeat(9), ["looms", "cards"]);
    await gateway.bookmark(reader, id);
  }
  await signInAs(page, reader);
  await page.goto("/bookmarks");
  await expect(page.getByRole("button", { name: "Bookmarked" }).first()).toBeVisible();
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
