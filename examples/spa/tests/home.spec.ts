import type { Page } from "@playwright/test";
import { expect, signInAs, test } from "./fixtures";

const tab = (page: Page, name: string) => page.getByRole("navigation", { name: "Posts" }).getByRole("link", { name });

test("Home has the posts of those one follows, and new ones wait for the reader", async ({ page, gateway }) => {
  const [followed, other] = [await gateway.join("home-followed"), await gateway.join("home-other")];
  await gateway.join("home-reader");
  await gateway.publish("home-followed", "Before the follow");
  await gateway.publish("home-other", "Not for Home");
  await gateway.follow("home-reader", followed);
  await signInAs(page, "home-reader");
  await page.goto("/");
  await expect(tab(page, "All")).toHaveAttribute("aria-current", "page");
  await tab(page, "Home").click();
  await expect(page).toHaveURL("/home");
  await expect(page).toHaveTitle("Home · Byline");
  const posts = page.getByRole("article");
  await expect(posts).toHaveText([/Before the follow/]);
  await expect(page.getByText("These are all the posts of those you follow.")).toBeVisible();

  const waiting = (text: string) => page.getByRole("button", { name: text, exact: true });
  await expect(async () => { // until the subscription has started
    await gateway.publish("home-followed", "News");
    await gateway.publish("home-other", "Other news");
    await expect(page.getByRole("button", { name: /new posts?$/ })).toBeVisible({ timeout: 1000 });
  }).toPass();
  await expect(posts).toHaveCount(1);
  await page.getByRole("button", { name: /new posts?$/ }).click();
  await expect(posts.first()).toContainText("News");
  await expect(page.getByText("Other news")).toHaveCount(0);
  await expect(page.getByRole("button", { name: /new posts?$/ })).toHaveCount(0);

  await gateway.follow("home-reader", other); // as from another window: it takes effect at once
  for (const n of [1, 2]) await gateway.publish("home-other", `Now for Home ${n}`);
  await gateway.publish("home-followed", "And more");
  await expect(waiting("3 new posts")).toBeVisible();
  await gateway.unfollow("home-reader", followed);
  await gateway.publish("home-followed", "No longer for Home");
  await gateway.publish("home-other", "Now for Home 3");
  await expect(waiting("4 new posts")).toBeVisible();
  await waiting("4 new posts").click();
  await expect(posts.first()).toContainText("Now for Home 3");
  await expect(page.getByText("for Home")).toHaveCount(4); // and "Not for Home", but not "No longer"
});

test("a reader without follows is led to posts, follows an author there, and has a Home", async ({ page, gateway }) => {
  const author = "home-first";
  await gateway.join(author);
  const { slug } = await gateway.publish(author, "The first of Home");
  await gateway.join("home-beginner");
  await signInAs(page, "home-beginner");
  await page.goto("/home");
  await expect(page.getByText("Follow somebody to see their posts here")).toBeVisible();
  await page.getByRole("link", { name: "Read the newest posts" }).click();
  await expect(page).toHaveURL("/");
  await page.getByRole("link", { name: "The first of Home" }).click();
  await expect(page).toHaveURL(`/posts/${slug}`);
  await Promise.all([
    page.waitForResponse((response) => response.request().postData()?.includes('"input"') ?? false),
    page.getByRole("button", { name: `Follow ${author}` }).click(),
  ]);
  await page.getByRole("link", { name: "Byline" }).click();
  await tab(page, "Home").click();
  await expect(page.getByRole("article")).toHaveText([/The first of Home/]);
});

test("Home keeps its scroll position, and goes on as one scrolls", async ({ page, gateway }) => {
  const id = await gateway.join("home-writer");
  await gateway.join("home-scroller");
  for (let i = 0; i < 23; i++) await gateway.publish("home-writer", `Part ${i}`, "A text of some words. ".repeat(12));
  await gateway.follow("home-scroller", id);
  await signInAs(page, "home-scroller");
  await page.goto("/home");
  const posts = page.getByRole("article");
  await expect(posts.first()).toContainText("Part 22");
  await expect(async () => {
    await posts.last().scrollIntoViewIfNeeded();
    await expect(posts).toHaveCount(23, { timeout: 500 });
  }).toPass();
  const titles = Array.from({ length: 23 }, (_, i) => `Part ${22 - i}`);
  await expect(page.getByRole("heading", { level: 2 })).toHaveText(titles);
  await posts.nth(17).scrollIntoViewIfNeeded();
  await posts.nth(17).getByRole("heading").getByRole("link").click();
  await expect(page.getByRole("heading", { level: 1, name: "Part 5" })).toBeFocused();
  await page.goBack();
  await expect(posts.nth(17)).toBeInViewport();
});

test("Home is for signed-in readers, who sign in and come to it", async ({ page }) => {
  await page.goto("/");
  await expect(page.getByRole("article")).toHaveCount(10);
  await expect(tab(page, "Home")).toHaveCount(0);
  await page.goto("/home");
  await page.getByRole("button", { name: "ada" }).click();
  await expect(page).toHaveURL("/home");
  await expect(page.getByRole("article").first()).toBeVisible(); // the demo user follows some
});
