import { join } from "node:path";
import { expect, expectAccessible, test } from "./fixtures";
import { Gateway } from "./gateway";

// What a reader sees without JavaScript. Playwright's output folder gets a screenshot of each.
let site: Gateway;
test.beforeAll(async () => {
  site = await Gateway.start(["--site", join(import.meta.dirname, "../dist"), "--site-url", "https://blog.example"]);
});
test.afterAll(() => site.stop());

for (const width of [390, 1280]) {
  for (const colorScheme of ["light", "dark"] as const) {
    test.describe(`without JavaScript, ${width} px, ${colorScheme}`, () => {
      test.use({ colorScheme, viewport: { width, height: 900 } });

      for (const [name, path, text] of [
        ["front", "/", "article h2 a"],
        ["post", "", "article.post .rendered p"],
        ["tag", "/tags/bread", "article .excerpt"],
        ["author", "/authors/grace", "article .excerpt"],
      ] as const) {
        test(name, async ({ page }, testInfo) => {
          const client = await page.context().newCDPSession(page);
          await client.send("Emulation.setScriptExecutionDisabled", { value: true });
          await page.goto(site.own + path);
          if (name === "post") await page.locator("h2 a").first().click();
          await expect(page.locator(text).first()).toBeInViewport();
          expect((await page.locator(text).first().innerText()).length).toBeGreaterThan(5);
          await expect(page.getByRole("link", { name: "Sign in" })).toHaveCount(0); // the application has not run
          await page.screenshot({ path: testInfo.outputPath(`${name}.png`), fullPage: true });
          await client.send("Emulation.setScriptExecutionDisabled", { value: false }); // for axe
          await expectAccessible(page);
        });
      }
    });
  }
}
