import { join } from "node:path";
import { expect, test } from "./fixtures";
import { Gateway } from "./gateway";

// Lighthouse's slow 4G and processor: 1.6 Mbit/s down, 750 kbit/s up, 150 ms for each round trip; a quarter as fast.
const slow4G = { offline: false, latency: 150, downloadThroughput: 1_600_000 / 8, uploadThroughput: 750_000 / 8 };
const visits = 5;

let site: Gateway;
test.beforeAll(async () => {
  site = await Gateway.start(["--site", join(import.meta.dirname, "../dist"), "--site-url", "https://blog.example"]);
});
test.afterAll(() => site.stop());

test("first visits of a post on slow 4G", async ({ browser, request }) => {
  const [, path = ""] = /<h2[^>]*><a href="([^"]+)"/.exec(await (await request.get(site.own)).text()) ?? [];
  const paints: number[] = [];
  for (let visit = 0; visit < visits; visit++) {
    const context = await browser.newContext(); // nothing is cached
    const page = await context.newPage();
    const client = await context.newCDPSession(page);
    await client.send("Network.enable");
    await client.send("Network.emulateNetworkConditions", slow4G);
    await client.send("Emulation.setCPUThrottlingRate", { rate: 4 });
    const requests: string[] = [];
    page.on("request", (request) => request.url().includes("/graphql") && requests.push(request.url()));
    await page.addInitScript(observe);

    await page.goto(site.own + path);
    await expect(page.getByRole("link", { name: "Sign in" }).first()).toBeVisible(); // the page is interactive
    expect(requests.filter((url) => !url.startsWith("ws"))).toEqual([]);
    await page.waitForFunction(() => document.fonts.check('650 20px "Source Serif 4"'));
    await page.waitForLoadState("networkidle");
    const { paint, shift } = await page.evaluate(() => (window as unknown as { observed: Observed }).observed);
    expect(shift).toBe(0);
    expect(paint).toBeGreaterThan(0);
    paints.push(Math.round(paint));
    await context.close();
  }
  const median = paints.toSorted((a, b) => a - b)[Math.floor(visits / 2)];
  console.log(`LCP ${median} ms, the median of ${paints.join(", ")}; the target is 1200 ms`);
});

interface Observed {
  paint: number;
  shift: number;
}

/** Observes the largest contentful paint and the sum of the layout shifts. */
function observe() {
  const observed: Observed = { paint: 0, shift: 0 };
  Object.assign(window, { observed });
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) observed.shift += (entry as unknown as { value: number }).value;
  }).observe({ type: "layout-shift", buffered: true });
  new PerformanceObserver((list) => {
    observed.paint = list.getEntries().at(-1)?.startTime ?? 0;
  }).observe({ type: "largest-contentful-paint", buffered: true });
}
