import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, expectAccessible, signInAs, test } from "./fixtures";
import { Gateway } from "./gateway";

// The gateway serves the build itself, with pages that need no JavaScript.
test.describe.configure({ mode: "serial" });
let site: Gateway;
test.beforeAll(async () => {
  site = await Gateway.start(["--site", join(import.meta.dirname, "../dist"), "--site-url", "https://blog.example"]);
});
test.afterAll(() => site.stop());

/** Opens a page, and returns the methods of the GraphQL requests until the application has taken it over. */
async function visit(page: Page, path: string) {
  const requests: string[] = [];
  page.on("request", (request) => request.url().includes("/graphql") && requests.push(request.method()));
  await page.addInitScript(() => {
    new PerformanceObserver((list) => {
      for (const { entryType } of list.getEntries()) document.title += ` MOVED: ${entryType}`;
    }).observe({ type: "layout-shift", buffered: true });
  });
  await page.goto(site.own + path);
  await expect(page.getByRole("link", { name: "Sign in" }).first()).toBeVisible();
  return requests;
}

async function postOf(page: Page) {
  await page.goto(site.own);
  return (await page.locator("h2 a").first().getAttribute("href")) ?? "";
}

test("the application takes over pages without a request, and moves nothing", async ({ page }) => {
  const post = await postOf(page);
  for (const path of ["/", post]) {
    const requests = await visit(page, path);
    expect(requests.filter((method) => method === "GET")).toEqual([]);
    await expect(page).not.toHaveTitle(/MOVED/);
    await expect(page.locator("h1")).toHaveCount(1);
    await expect(page.locator("link[rel=canonical]")).toHaveAttribute("href", `https://blog.example${path}`);
    await expect(page.locator("meta[name=description]")).toHaveCount(1);
  }
  await page.getByRole("link", { name: "Byline" }).click(); // as an application
  await expect(page.getByRole("article")).toHaveCount(10);
  await expect(page.locator("link[rel=canonical]")).toHaveCount(0); // that of the post
});

test("the application takes over a search without a request, and moves nothing", async ({ page }) => {
  for (const path of ["/search", "/search?q=bread", "/search?q=bread&order=newest", "/search?q=velocipedes"]) {
    const requests = await visit(page, path);
    expect(requests.filter((method) => method === "GET")).toEqual([]);
    await expect(page).not.toHaveTitle(/MOVED/);
    await expect(page).toHaveTitle(/Search · Byline$/);
    await expect(page.locator("h1")).toHaveCount(1);
    await expect(page.getByRole("article")).toHaveCount(path.includes("bread") ? 10 : 0);
  }
});

test("a signed-in reader gets what is theirs", async ({ page }) => {
  const post = await postOf(page);
  await signInAs(page, "ada");
  await page.goto(site.own + post);
  await expect(page.getByRole("button", { name: /like/i })).toBeVisible();
  await expect(page.getByRole("link", { name: "Sign in" })).toHaveCount(0);
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`articles are readable without JavaScript, ${colorScheme}`, async ({ browser, viewport }) => {
    const context = await browser.newContext({ javaScriptEnabled: false, colorScheme, viewport });
    const page = await context.newPage();
    const post = await postOf(page);
    expect(await page.getByRole("article").count()).toBe(10);
    await page.goto(site.own + post);
    await expect(page.locator("article.post .rendered p").first()).toBeVisible();
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
    await context.close();
  });
}

test("pages for users are the application's", async ({ page }) => {
  await page.goto(`${site.own}/write`);
  await expect(page).toHaveURL(/signin/);
});

test.describe("a wrong address", () => {
  test.use({ expectedErrors: /404/ });
  test("has status 404, and the application's page", async ({ page }) => {
    const response = await page.goto(`${site.own}/nowhere`);
    expect(response?.status()).toBe(404);
    await expect(page.locator("h1")).toBeVisible();
    await expectAccessible(page);
  });
});
