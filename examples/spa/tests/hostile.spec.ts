import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, test } from "./fixtures";
import { Gateway } from "./gateway";

// Values that would execute a script, set window.pwned or open a dialog, if a page did not escape them for their
// context. The Content-Security-Policy, which would forbid it, is not applied. The list is also internal/e2e's.
const list = join(import.meta.dirname, "../../../internal/e2e/testdata/hostile.json");
const all = JSON.parse(readFileSync(list, "utf8")) as string[];
const values = process.env.BYLINE_TEST_LONG ? all : all.filter((_, n) => n % 7 === 0);
const tag = /^[\p{L}\p{N}]([\p{L}\p{M}\p{N}+#·'-]*[\p{L}\p{N}])?$/u;

test.use({ bypassCSP: true, expectedErrors: /Failed to load resource/ }); // pictures that do not exist
test.setTimeout(process.env.BYLINE_TEST_LONG ? 600_000 : 60_000);
let site: Gateway;
test.beforeAll(async () => {
  site = await Gateway.start(["--site", join(import.meta.dirname, "../dist"), "--site-url", "https://blog.example"]);
});
test.afterAll(() => site.stop());

/** Returns the messages of dialogs that the page will open. */
function dialogsOf(page: Page) {
  const dialogs: string[] = [];
  page.on("dialog", (dialog) => {
    dialogs.push(dialog.message());
    void dialog.dismiss();
  });
  return dialogs;
}

/** Opens a page, and returns what is executable in it, after the application has taken it over. */
async function executableOf(page: Page, path: string) {
  await page.goto(site.own + path);
  await expect(page.getByRole("link", { name: "Sign in" }).first()).toBeVisible();
  expect(page.url()).toBe(site.own + path);
  return page.evaluate(() => {
    const found = "pwned" in window ? ["window.pwned"] : [];
    for (const element of document.querySelectorAll("*")) {
      if (element instanceof HTMLScriptElement && !element.src && !element.type.startsWith("application/"))
        found.push(element.outerHTML);
      for (const { name, value } of element.attributes) {
        const link = ["href", "src", "action", "formaction", "xlink:href", "data", "srcdoc"].includes(name);
        const protocol = link && URL.canParse(value, location.href) ? new URL(value, location.href).protocol : "";
        if (name.startsWith("on") || !["", "http:", "https:", "mailto:"].includes(protocol))
          found.push(element.outerHTML);
      }
    }
    return found;
  });
}

/** Publishes a value in all texts of a post and its author, and returns the paths of their pages. */
async function publish(value: string, n: number) {
  const user = `hostile-${n}`;
  await site.join(user);
  const line = value.replace(/[\n\u2028\u2029]/gu, " "); // names and titles have no line breaks
  await site.updateUser(user, { displayName: line.slice(0, 60), bio: value });
  const content = [value, `# ${value}`, `[x](${value})`, `![${value}](x "${value}")`, `<a href="${value}">x</a>`,
    `\`${value}\``, `> ${value}`, `|${value}|\n|---|\n|${value}|`, `<p title='${value}'>${value}`];
  const tags = tag.test(value) && value.length <= 30 ? [value, "hostile"] : ["hostile"];
  const { slug } = await site.publish(user, line, content.join("\n\n"), tags);
  return [`/posts/${encodeURIComponent(slug)}`, `/authors/${user}`];
}

test(`no script of ${values.length} values runs`, async ({ context }) => {
  const entries = values.entries(); // which the tabs share
  const read = async (page: Page) => {
    const dialogs = dialogsOf(page);
    for (const [n, value] of entries) {
      for (const path of [...(await publish(value, n)), ...(n % 10 ? [] : ["/", "/tags/hostile"])]) {
        expect(await executableOf(page, path), `${path}, with ${value}`).toEqual([]);
        expect(dialogs, path).toEqual([]);
      }
    }
  };
  await Promise.all([1, 2, 3].map(async () => read(await context.newPage())));
});

test.describe("without the policy", () => {
  test.use({ bypassCSP: true, expectedErrors: /./ });
  test("a script in a page runs", async ({ page }) => {
    const dialogs = dialogsOf(page);
    const script = "<script>pwned=1;alert(1)</script>";
    await page.route(`${site.own}/`, async (route) => {
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()) + script });
    });
    expect(await executableOf(page, "/")).toEqual(["window.pwned", script]);
    expect(dialogs).toEqual(["1"]);
  });
});
