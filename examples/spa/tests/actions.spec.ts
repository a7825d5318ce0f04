import { expect, onMutation, signInAs, test, windowOf } from "./fixtures";

test("signs in and out, by the pages", async ({ page }) => {
  await page.goto("/settings");
  await page.getByRole("button", { name: "ada" }).click();
  await expect(page).toHaveURL("/settings");
  await expect(page.getByLabel("Username")).toHaveValue("ada");
  await page.getByRole("button", { name: /, menu$/ }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByRole("link", { name: "Sign in" })).toBeVisible();
  expect(await page.evaluate(() => Object.keys(sessionStorage))).not.toContain("byline.token");
});

test("a new user chooses a name, writes, edits and deletes, and leaves", async ({ page }, { project }) => {
  const name = project.name.startsWith("phone") ? "Betty" : "Jennings";
  await page.goto("/write");
  await page.getByLabel(/Or anyone else/).fill(`subject-${name}`);
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByLabel("Username")).toHaveValue(`subject-${name}`);
  await page.getByLabel("Username").fill("grace");
  await page.getByRole("button", { name: "Begin" }).click();
  await expect(page.getByRole("alert")).toContainText("This username is taken");
  await page.getByLabel("Username").fill(name);
  await page.getByRole("button", { name: "Begin" }).click();

  await page.getByLabel("Title").fill("First");
  await page.getByLabel("Text").fill("One.\n\nTwo.");
  await page.getByRole("button", { name: "Publish" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "First" })).toBeFocused();
  await expect(page.locator(".post .content p")).toHaveText(["One.", "Two."]);

  await page.getByRole("link", { name: "Edit" }).click();
  await page.getByLabel("Text").fill("Three.");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.locator(".post .content p")).toHaveText(["Three."]);

  await page.getByLabel("Write a comment").fill("My own.");
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  const comment = page.getByRole("listitem").getByRole("article");
  await comment.getByRole("button", { name: "Edit" }).click();
  await comment.getByLabel("Your comment").fill("My own, edited.");
  await comment.getByRole("button", { name: "Save" }).click();
  await expect(comment).toContainText("My own, edited.");
  await comment.getByRole("button", { name: "Delete" }).click();
  await comment.getByRole("button", { name: "Delete this comment" }).click();
  await expect(page.getByRole("heading", { name: "0 comments" })).toBeVisible();

  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete for ever" }).click();
  await expect(page).toHaveURL("/");
  await expect(page.getByRole("article")).toHaveCount(10);
  await expect(page.getByRole("link", { name: "First" })).toHaveCount(0);

  await page.goto("/settings");
  await page.getByLabel("Username").fill(`${name}2`);
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved.")).toBeVisible();
  await page.goto(`/authors/${name}`);
  await expect(page).toHaveURL(`/authors/${name}2`);
  await page.goto("/settings");
  await page.getByLabel(/to confirm/).fill(`${name}2`);
  await page.getByRole("button", { name: "Delete the account" }).click();
  await expect(page.getByRole("link", { name: "Sign in" })).toBeVisible();
});

test("a moderator deletes what others wrote, but edits nothing", async ({ page, gateway }, { project }) => {
  const troll = `troll-${project.name}`;
  await gateway.join(troll);
  const { id } = await gateway.publish(troll, "Buy my book");
  await gateway.comment(troll, id, "And buy it again.");
  await page.goto("/signin");
  await page.getByLabel(/As a moderator/).check();
  await page.getByRole("button", { name: "grace" }).click();
  await page.getByRole("article").filter({ hasText: "Buy my book" }).getByRole("link").last().click();
  const comment = page.getByRole("listitem");
  await comment.getByRole("button", { name: "Delete" }).click();
  await comment.getByRole("button", { name: "Delete this comment" }).click();
  await expect(comment).toHaveCount(0);
  await expect(page.getByRole("link", { name: "Edit" })).toHaveCount(0);
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete for ever" }).click();
  await expect(page).toHaveURL("/");
  await expect(page.getByRole("article")).not.toHaveCount(0);
  await expect(page.getByRole("link", { name: "Buy my book" })).toHaveCount(0);

  await page.goto(`/authors/${troll}`);
  await page.getByText("Moderate").click();
  await page.getByLabel(/to confirm/).fill(troll);
  await page.getByRole("button", { name: "Delete the account" }).click();
  await expect(page).toHaveURL("/");
  await page.goto(`/authors/${troll}`);
  await expect(page.getByRole("heading", { name: "Not found" })).toBeVisible();
});

test("an edit of an outdated version is a conflict, with a way out", async ({ page, browser, gateway }) => {
  const { slug } = await gateway.publish("alan", "Versions", "The first text.");
  await signInAs(page, "alan");
  await page.goto(`/posts/${slug}/edit`);
  await page.getByLabel("Text").fill("My text.");
  const other = await windowOf(browser, gateway, "alan");
  await other.goto(`/posts/${slug}/edit`);
  await other.getByLabel("Text").fill("Their text.");
  await other.getByRole("button", { name: "Save" }).click();
  await expect(other.locator(".post .content")).toHaveText("Their text.");
  await other.context().close();

  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("heading", { name: "It was edited elsewhere meanwhile" })).toBeFocused();
  await expect(page.getByRole("blockquote")).toContainText("Their text.");
  await expect(page.getByLabel("Text")).toHaveValue("My text.");
  await page.getByRole("button", { name: /Go on with mine/ }).click();
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.locator(".post .content")).toHaveText("My text.");
});

test("a like that is refused is taken back", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("ada", "Likes");
  await signInAs(page, "grace");
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await onMutation(page, async (route) => {
    await held;
    const errors = [{ message: "no", extensions: { code: "FORBIDDEN" } }];
    await route.fulfill({ json: { errors, data: null } });
  });
  await page.goto(`/posts/${slug}`);
  await page.getByRole("button", { name: "Like" }).click();
  await expect(page.getByText("1 like", { exact: true })).toBeVisible(); // at once
  release();
  await expect(page.getByText("0 likes")).toBeVisible();
  await expect(page.getByRole("alert").filter({ hasText: "not allowed" })).toBeVisible();
  const written = () => page.waitForResponse((response) => response.request().postData()?.includes('"input"') ?? false);
  await Promise.all([written(), page.getByRole("button", { name: "Like" }).click()]);
  await page.reload();
  await expect(page.getByText("1 like", { exact: true })).toBeVisible();
  await Promise.all([written(), page.getByRole("button", { name: "Liked" }).click()]);
  await page.reload();
  await expect(page.getByText("0 likes")).toBeVisible();
});

test("THROTTLED waits, says so, and succeeds", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("ada", "Too often");
  await signInAs(page, "grace");
  await onMutation(page, async (route) => {
    const errors = [{ message: "too many", extensions: { code: "THROTTLED", retryAfterMs: 1500 } }];
    await route.fulfill({ json: { errors, data: null } });
  });
  await page.goto(`/posts/${slug}`);
  await page.getByLabel("Write a comment").fill("Again and again.");
  await page.getByRole("button", { name: "Comment", exact: true }).dblclick(); // a double click is one comment
  await expect(page.getByText("Too many requests at the moment.")).toBeVisible();
  await expect(page.getByRole("heading", { name: "1 comment" })).toBeVisible();
  await expect(page.getByText("Too many requests at the moment.")).toBeHidden();
  await page.reload();
  await expect(page.getByRole("listitem")).toHaveCount(1);
});
