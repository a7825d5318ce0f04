import { expect, test } from "./fixtures";

// The browser blocks site data: merely to name a storage is an error.
test.beforeEach(async ({ page }) => {
  await page.addInitScript(() => {
    const get = () => { throw new DOMException("Access is denied for this document.", "SecurityError"); };
    for (const name of ["sessionStorage", "localStorage", "indexedDB", "caches"]) {
      Object.defineProperty(window, name, { configurable: true, get });
    }
    Object.defineProperty(Document.prototype, "cookie", { get, set: get });
  });
});

test("without site data one reads the feed, posts, and further pages", async ({ page, gateway }) => {
  const { id } = await gateway.publish("ada", "Read without data", "A *text*.");
  await gateway.comment("grace", id, "A comment.");
  await page.goto("/");
  await expect(page.getByRole("article")).toHaveCount(10);
  await page.getByRole("link", { name: "Read without data" }).click();
  await expect(page.locator(".post .content em")).toHaveText("text");
  await expect(page.locator(".comment .text")).toHaveText("A comment.");
  await page.reload();
  await expect(page.locator(".post .content em")).toHaveText("text");
  await page.goBack();
  await expect(page.getByRole("article").first()).toBeVisible();
  for (const path of ["/authors/grace", "/tags/bread"]) {
    await page.goto(path);
    await expect(page.getByRole("article").first()).toBeVisible();
  }
});

test("without site data the page for signing in says why nobody can", async ({ page }) => {
  for (const path of ["/signin", "/write", "/settings"]) {
    await page.goto(path);
    await expect(page.getByText("Your browser blocks this site’s data")).toBeVisible();
    await expect(page.getByRole("button", { name: "ada" })).toHaveCount(0);
  }
});
