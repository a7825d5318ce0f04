import type { Page } from "@playwright/test";
import { expect, onMutation, signInAs, test } from "./fixtures";

const written = (page: Page) =>
  page.waitForResponse((response) => response.request().postData()?.includes('"input"') ?? false);

test("a bookmark shows at once, is taken back if it is refused, and is listed", async ({ page, gateway }) => {
  const earlier = await gateway.publish("ada", "Bookmarked earlier");
  const { slug } = await gateway.publish("ada", "Bookmarked later");
  await gateway.join("collector");
  await gateway.bookmark("collector", earlier.id);
  await signInAs(page, "collector");
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await onMutation(page, async (route) => {
    await held;
    const errors = [{ message: "no", extensions: { code: "FORBIDDEN" } }];
    await route.fulfill({ json: { errors, data: null } });
  });
  await page.goto(`/posts/${slug}`);
  const bookmark = page.getByRole("button", { name: "Bookmark", exact: true });
  const bookmarked = page.getByRole("button", { name: "Bookmarked" });
  await expect(bookmark).toHaveAttribute("aria-pressed", "false");
  await bookmark.click();
  await expect(bookmarked).toHaveAttribute("aria-pressed", "true"); // at once
  release();
  await expect(bookmark).toBeVisible();
  await expect(page.getByRole("alert").filter({ hasText: "not allowed" })).toBeVisible();
  await Promise.all([written(page), bookmark.click()]);

  await page.getByRole("button", { name: "collector, menu" }).click();
  await page.getByRole("link", { name: "Bookmarks" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Bookmarks" })).toBeFocused();
  await expect(page.getByRole("heading", { level: 2 })).toHaveText(["Bookmarked later", "Bookmarked earlier"]);
  await Promise.all([written(page), bookmarked.first().click()]);
  await expect(bookmark).toBeVisible(); // the post stays, to be bookmarked again
  await expect(page.getByRole("article")).toHaveCount(2);
  await page.reload();
  await expect(page.getByRole("heading", { level: 2 })).toHaveText(["Bookmarked earlier"]);
  await page.getByRole("link", { name: "Bookmarked earlier" }).click();
  await expect(bookmarked).toBeVisible();
});

test("an anonymous reader signs in before a bookmark, and returns", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("grace", "To bookmark");
  await page.goto(`/posts/${slug}`);
  await page.getByRole("button", { name: "Bookmark" }).click();
  await page.getByRole("button", { name: "alan" }).click();
  await expect(page).toHaveURL(`/posts/${slug}`);
  await expect(page.getByRole("button", { name: "Bookmark", exact: true })).toBeVisible();
});

test("liked posts are listed, most recently liked first, until one likes them no longer", async ({ page, gateway }) => {
  await gateway.join("admirer");
  for (const title of ["Liked first", "Liked second"]) {
    await gateway.like("admirer", (await gateway.publish("ada", title)).id);
  }
  await signInAs(page, "admirer");
  await page.goto("/");
  await page.getByRole("button", { name: "admirer, menu" }).click();
  await page.getByRole("link", { name: "Liked posts" }).click();
  const titles = page.getByRole("heading", { level: 2 });
  const listed = async (expected: string[]) => {
    await expect(async () => { // the list follows a like a moment later
      await page.goto("/liked");
      await expect(titles).toHaveText(expected, { timeout: 500 });
    }).toPass();
  };
  await expect(page.getByRole("heading", { level: 1, name: "Liked posts" })).toBeFocused();
  await listed(["Liked second", "Liked first"]);
  await page.getByRole("link", { name: "Liked second" }).click();
  await Promise.all([written(page), page.getByRole("button", { name: "Liked" }).click()]);
  await listed(["Liked first"]);
});

test("lists of a reader's own are for signed-in readers", async ({ page }) => {
  for (const path of ["/liked", "/bookmarks"]) {
    await page.goto(path);
    await expect(page).toHaveURL(`/signin?to=${encodeURIComponent(path)}`);
  }
});
