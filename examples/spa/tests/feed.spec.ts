import { join } from "node:path";
import { parseAtomFeed } from "feedsmith";
import { expect, test } from "./fixtures";
import { Gateway } from "./gateway";

// Feeds as the parser feedsmith reads them, compared with the pages that they link to.
test.use({ javaScriptEnabled: false });
const url = "https://blog.example";
let site: Gateway;
test.beforeAll(async () => {
  site = await Gateway.start(["--site", join(import.meta.dirname, "../dist"), "--site-url", url]);
});
test.afterAll(() => site.stop());

for (const { page: of, title } of [
  { page: "", title: "Byline" },
  { page: "/tags/bread", title: "#bread · Byline" },
  { page: "/authors/grace", title: "Grace Miller · Byline" },
]) {
  test(`the feed of ${of || "the front page"} has what its posts' pages have`, async ({ page, request }) => {
    const response = await request.get(`${site.own}${of}/feed.atom`);
    expect(response.headers()["content-type"]).toContain("application/atom+xml");
    const feed = parseAtomFeed(await response.text());
    expect(feed.title).toMatchObject({ value: title });
    expect(feed.id).toBe(url + (of || "/"));
    expect(feed.links).toContainEqual({ rel: "self", type: "application/atom+xml", href: `${url}${of}/feed.atom` });
    expect(feed.links).toContainEqual({ rel: "alternate", type: "text/html", href: url + (of || "/") });
    const entries = feed.entries ?? [];
    expect(entries.length).toBeGreaterThan(1);
    expect(new Set(entries.map(({ id }) => id)).size).toBe(entries.length);
    expect(feed.updated).toBe(entries.map(({ updated }) => updated).sort().at(-1));

    for (const entry of entries) {
      expect(entry.id).toMatch(/^tag:blog\.example,\d{4}-\d\d-\d\d:/);
      const [link] = entry.links ?? [];
      expect(link).toMatchObject({ rel: "alternate", type: "text/html" });
      await page.goto((link?.href ?? "").replace(url, site.own));
      expect(entry.title).toMatchObject({ value: await page.locator("h1").textContent() });
      expect(entry.authors?.[0]?.name).toBe(await page.locator(".author bdi").textContent());
      const author = await page.locator("a.author").getAttribute("href");
      expect(entry.authors?.[0]?.uri).toBe(`${url}${author}`);
      const meta = (name: string) => page.locator(`meta[property="article:${name}"]`).first();
      expect(entry.published).toBe(await meta("published_time").getAttribute("content"));
      const edited = (await meta("modified_time").count()) ? meta("modified_time") : meta("published_time");
      expect(entry.updated).toBe(await edited.getAttribute("content"));
      const content = await page.evaluate((html) => {
        const parsed = new DOMParser().parseFromString(html, "text/html").body.innerHTML;
        return [parsed.trim(), document.querySelector(".rendered")?.innerHTML.trim()];
      }, entry.content?.value ?? "");
      expect(content[0]).toBe(content[1]);
      expect(content[0]?.length).toBeGreaterThan(50);
    }
  });
}
