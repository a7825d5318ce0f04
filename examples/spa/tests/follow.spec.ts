import type { Page } from "@playwright/test";
import { expect, expectAccessible, onMutation, signInAs, test } from "./fixtures";

const error = (extensions: object) => ({ errors: [{ message: "no more", extensions }], data: null });
const written = (page: Page) =>
  page.waitForResponse((response) => response.request().postData()?.includes('"input"') ?? false);

test("a follow counts at once, and is taken back if it is refused", async ({ page, gateway }) => {
  await gateway.join("counted");
  await signInAs(page, "grace");
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await onMutation(page, async (route) => {
    await held;
    await route.fulfill({ json: error({ code: "FORBIDDEN" }) });
  });
  await page.goto("/authors/counted");
  const follow = page.getByRole("button", { name: "Follow counted" });
  const following = page.getByRole("button", { name: "Following counted" });
  await expect(page.getByText("0 followers")).toBeVisible();
  await expect(follow).toHaveAttribute("aria-pressed", "false");
  await follow.click();
  await expect(page.getByText("1 follower", { exact: true })).toBeVisible(); // at once
  await expect(following).toHaveAttribute("aria-pressed", "true");
  release();
  await expect(page.getByText("0 followers")).toBeVisible();
  await expect(page.getByRole("alert").filter({ hasText: "not allowed" })).toBeVisible();
  await expectAccessible(page);

  await Promise.all([written(page), follow.click()]);
  await page.reload();
  await expect(page.getByText("1 follower", { exact: true })).toBeVisible();
  await expect(page.getByRole("alert")).toHaveText("");
  await Promise.all([written(page), following.click()]);
  await page.reload();
  await expect(page.getByText("0 followers")).toBeVisible();
  await expect(follow).toBeVisible();
});

test("who follows as many as one can is told so, beside the button", async ({ page, gateway }) => {
  await gateway.join("over-limit");
  const { slug } = await gateway.publish("over-limit", "One too many");
  await signInAs(page, "grace");
  await onMutation(page, (route) => route.fulfill({ json: error({ code: "LIMIT_REACHED" }) }));
  await page.goto(`/posts/${slug}`);
  await page.getByRole("button", { name: "Follow over-limit" }).click();
  await expect(page.getByRole("alert").filter({ hasText: "No more." })).toBeVisible();
  await expect(page.getByRole("button", { name: "Follow over-limit" })).toHaveAttribute("aria-pressed", "false");
  await expectAccessible(page);
});

test("an anonymous reader signs in first, and returns", async ({ page, gateway }) => {
  await gateway.join("read-first");
  const { slug } = await gateway.publish("read-first", "Read first");
  await page.goto(`/posts/${slug}`);
  await page.getByRole("button", { name: "Follow read-first" }).click();
  await page.getByRole("button", { name: "alan" }).click();
  await expect(page).toHaveURL(`/posts/${slug}`);
  const follow = page.getByRole("button", { name: "Follow read-first" });
  await expect(follow).toBeVisible();
  await Promise.all([written(page), follow.click()]);
  await page.reload();
  await expect(page.getByRole("button", { name: "Following read-first" })).toBeVisible();
});

test("nobody follows themselves", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("ada", "Of oneself");
  await signInAs(page, "ada");
  for (const path of [`/posts/${slug}`, "/authors/ada", "/authors/ada/followers"]) {
    await page.goto(path);
    await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
    await expect(page.getByRole("button", { name: /^Follow(ing)? Ada/ })).toHaveCount(0);
  }
});

test("followers and followed authors are listed, and followed from there", async ({ page, gateway }) => {
  const id = await gateway.join("popular");
  for (let i = 10; i < 35; i++) {
    await gateway.join(`fan-${i}`);
    await gateway.follow(`fan-${i}`, id);
  }
  await gateway.join("reader-of-lists");
  await signInAs(page, "reader-of-lists");
  await page.goto("/authors/popular");
  await page.getByRole("link", { name: "25 followers" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Followers of popular" })).toBeFocused();
  await expect(page).toHaveTitle("Followers of popular · Byline");
  const users = page.getByRole("main").getByRole("listitem");
  await expect(users.first()).toContainText("fan-34"); // the latest
  await users.last().scrollIntoViewIfNeeded();
  await expect(users).toHaveCount(25);
  await Promise.all([written(page), page.getByRole("button", { name: "Follow fan-10" }).click()]);
  await page.getByRole("link", { name: "0 following" }).click();
  await expect(page.getByText("They follow nobody yet.")).toBeVisible();

  await users.first().waitFor({ state: "detached" });
  await expect(async () => {
    await page.goto("/authors/reader-of-lists/following"); // which follows the follow a moment later
    await expect(users).toHaveText(/fan-10/, { timeout: 500 });
  }).toPass();
  await expect(page.getByRole("link", { name: "1 following" })).toHaveAttribute("aria-current", "page");
  await page.getByRole("button", { name: "Following fan-10" }).click();
  await expect(page.getByRole("button", { name: "Follow fan-10" })).toBeVisible(); // it stays, to be followed again

  await gateway.updateUser("popular", { username: "renowned" });
  await page.goto("/authors/popular/followers");
  await expect(page).toHaveURL("/authors/renowned/followers");
  await page.goto("/authors/no-such-author/following");
  await expect(page.getByRole("heading", { name: "Not found" })).toBeVisible();
});

test.describe("at 320 px", () => {
  test.use({ viewport: { width: 320, height: 640 } });
  for (const [user, displayName] of [["rtl-author", "مهاجر القيرواني"], ["w".repeat(30), "W".repeat(60)]] as const) {
    test(`the name ${displayName} stays within the page`, async ({ page, gateway }) => {
      const id = await gateway.join(user);
      await gateway.updateUser(user, { displayName });
      for (const follower of ["ada", "grace"]) await gateway.follow(follower, id);
      const { slug } = await gateway.publish(user, `Of ${displayName}`);
      await signInAs(page, "ada");
      for (const path of [`/posts/${slug}`, `/authors/${user}`, `/authors/${user}/followers`]) {
        await page.goto(path);
        const button = page.getByRole("main").getByRole("button", { name: /^Follow/ }).first();
        await expect(button).toBeVisible();
        await expectAccessible(page);
        const name = page.getByRole("main").locator("h1, a.author").filter({ hasText: displayName }).last();
        expect(overlap(await button.boundingBox(), await name.boundingBox()), path).toBe(false);
      }
    });
  }
});

type Box = { x: number; y: number; width: number; height: number } | null;

const overlap = (a: Box, b: Box) =>
  !a || !b || (a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height);
