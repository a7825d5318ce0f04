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

const parts = "h1, article h2, [type=search], .search-box p, .excerpt, .content"; // the gateway renders them, too

/** Where the parts of a page are. */
const places = (page: Page) =>
  page.locator("main").locator(parts).evaluateAll(async (parts) => {
    await document.fonts.ready;
    return parts.map((part) => {
      const { x, y, width, height } = part.getBoundingClientRect();
      return [part.localName, ...[x, y, width, height].map(Math.round)].join(" ");
    });
  });

/** Opens a page, and returns where its parts are before the application has taken it over. */
async function visit(page: Page, path: string) {
  const client = await page.context().newCDPSession(page);
  await client.send("Emulation.setScriptExecutionDisabled", { value: true });
  await page.goto(site.own + path);
  const before = await places(page);
  await client.send("Emulation.setScriptExecutionDisabled", { value: false });
  const requests: string[] = [];
  page.on("request", (request) => request.url().includes("/graphql") && requests.push(request.method()));
  await page.goto(site.own + path);
  await expect(page.getByRole("link", { name: "Sign in" }).first()).toBeVisible();
  expect(requests.filter((method) => method === "GET")).toEqual([]);
  return before;
}

async function postOf(page: Page) {
  await page.goto(site.own);
  return (await page.locator("h2 a").first().getAttribute("href")) ?? "";
}

test("the application takes over pages without a request, and moves nothing", async ({ page }) => {
  const post = await postOf(page);
  for (const path of ["/", post]) {
    const before = await visit(page, path);
    await expect.poll(() => places(page)).toEqual(before);
    await expect(page.locator("h1")).toHaveCount(1);
    await expect(page.locator("link[rel=canonical]")).toHaveAttribute("href", `https://blog.example${path}`);
    await expect(page.locator("meta[name=description]")).toHaveCount(1);
  }
  await page.getByRole("link", { name: "Byline" }).click(); // as an application
  await expect(page.getByRole("article")).toHaveCount(10);
  await expect(page.locator("link[rel=canonical]")).toHaveCount(0); // that of the post
});

test("the application takes over a search without a request, and moves nothing", async ({ page }) => {
  await page.goto(`${site.own}/authors/grace`);
  const filter = await page.getByRole("link", { name: "Search in these posts" }).getAttribute("href");
  const author = new URLSearchParams(filter?.split("?")[1]).get("author");
  for (const query of [
    "", "?q=bread", "?q=bread&order=newest", "?q=velocipedes",
    "?tag=bread", "?q=bread&tag=bread", `?q=bread&author=${author}`, `?q=bread&tag=bread&author=${author}`,
  ]) {
    const before = await visit(page, `/search${query}`);
    await expect.poll(() => places(page), query).toEqual(before);
    await expect(page).toHaveTitle(/Search · Byline$/);
    await expect(page.locator("h1")).toHaveCount(1);
    await expect(page.getByText("Only posts")).toHaveCount(/tag|author/.test(query) ? 1 : 0);
    expect(await page.getByRole("article").count() > 0).toBe(query.includes("q=bread"));
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
