import { test as base, expect, type Browser, type Page, type Route } from "@playwright/test";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Gateway } from "./gateway";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Violation {
  id: string;
  impact: string;
  help: string;
  nodes: { html: string; failureSummary: string }[];
}

/** Fails if a page has an accessibility problem that is serious or critical, or scrolls sideways. */
export async function expectAccessible(page: Page) {
  await page.evaluate(axe);
  const violations = await page.evaluate(async () => {
    const { axe } = window as unknown as { axe: { run: () => Promise<{ violations: Violation[] }> } };
    return (await axe.run()).violations;
  });
  const grave = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  const where = ({ nodes }: Violation) => nodes.map(({ html, failureSummary }) => html + failureSummary).join();
  expect(grave.map((violation) => `${violation.id}: ${where(violation)}`)).toEqual([]);
  await expect(page.locator("h1")).toHaveCount(1);
  const { scrollWidth, clientWidth } = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement; // innerWidth of a phone grows with the page
    return { scrollWidth, clientWidth };
  });
  expect(scrollWidth).toBeLessThanOrEqual(clientWidth);
}

/** Signs in without the page for it. */
export async function signInAs(page: Page, user: string) {
  await page.addInitScript((user) => {
    if (sessionStorage.getItem("test.signedOut") === null) sessionStorage.setItem("byline.token", `demo:${user}`);
  }, user);
}

/** Handles the next mutation of a page. It is sent again as usual, beside other requests, which nothing handles. */
export async function onMutation(page: Page, handle: (route: Route) => Promise<void>) {
  let handled = false;
  await page.route("**/graphql", (route) => {
    const { variables } = route.request().postDataJSON() as { variables: { input?: object } };
    if (handled || !variables.input) return route.fallback();
    handled = true;
    return handle(route);
  });
}

/** Opens a second browser window, of another user. */
export async function windowOf(browser: Browser, gateway: Gateway, user: string) {
  const context = await browser.newContext({ baseURL: gateway.url });
  const page = await context.newPage();
  await signInAs(page, user);
  return page;
}

interface Fixtures {
  /** The errors in the console that the test causes on purpose. */
  expectedErrors: RegExp | undefined;
}

export const test = base.extend<Fixtures, { gateway: Gateway }>({
  gateway: [
    async ({}, use) => {
      const gateway = await Gateway.start();
      await use(gateway);
      await gateway.stop();
    },
    { scope: "worker" },
  ],
  baseURL: async ({ gateway }, use) => use(gateway.url),
  expectedErrors: [undefined, { option: true }],
  page: async ({ page, expectedErrors }, use) => {
    const errors: string[] = [];
    page.on("console", (message) => {
      if (message.type() === "error" && !expectedErrors?.test(message.text())) errors.push(message.text());
    });
    page.on("pageerror", ({ message }) => errors.push(message));
    await use(page);
    expect(errors, "errors in the console").toEqual([]);
  },
});

export { expect };
