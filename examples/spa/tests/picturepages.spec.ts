import { expect, expectAccessible, signInAs, test } from "./fixtures";
import { choose, draw, give, widthOf } from "./files";

// SHOTS is a folder for pictures of the pages.
const shots = process.env.SHOTS;

test("a cover is described, replaced, and removed; a draft keeps it", async ({ page }) => {
  await signInAs(page, "ada");
  await page.goto("/write");
  await page.getByLabel("Title").fill("A cover");
  await page.getByLabel("Text").fill("A text.");
  const cover = page.getByRole("group", { name: "Cover" });
  await choose(page, cover.getByRole("button", { name: "Add a cover" }), [await draw(page, 1200, 630)]);
  await cover.getByLabel("What the picture shows").fill("A disc");
  await page.getByRole("button", { name: "Save as a draft" }).click();
  await expect(page).toHaveURL(/\/drafts\/./);
  await expect(page.getByText("Saved as a draft.")).toBeVisible();
  await page.evaluate(() => { sessionStorage.clear(); });
  await page.reload();
  await expect.poll(() => widthOf(cover.getByRole("img", { name: "A disc" }))).toBe(1200);
  await choose(page, cover.getByRole("button", { name: "Replace" }), [await draw(page, 800, 420)]);
  await cover.getByLabel("What the picture shows").fill("A smaller disc");
  await expect(page.getByText("Not saved yet.")).toBeVisible();
  await expect(page.getByText("Saved as a draft.")).toBeVisible();
  await page.getByRole("button", { name: "Publish" }).click();
  const picture = page.locator(".post > .cover");
  await expect(picture).toHaveAttribute("alt", "A smaller disc");
  await expect(picture).toHaveAttribute("width", "800");
  await expect(picture).toHaveAttribute("height", "420");
  await expect(picture).toHaveAttribute("fetchpriority", "high");
  await expect.poll(() => widthOf(picture)).toBe(800);

  await page.getByRole("link", { name: "Edit" }).click();
  await cover.getByRole("button", { name: "Remove" }).click();
  await expect(cover.getByRole("button", { name: "Add a cover" })).toBeVisible();
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.locator(".post .content")).toHaveText("A text.");
  await expect(picture).toHaveCount(0);
});

test("covers have their place on cards and posts before they load", async ({ page, gateway }) => {
  await signInAs(page, "ada");
  const upload = await gateway.upload("ada", await draw(page, 1200, 630));
  const cover = { coverImage: { upload, alt: "Looms" } };
  const looms = await gateway.publish("ada", "Two hundred looms", "A text.", [], cover);
  const pathname = `/posts/${looms.slug}`;
  const of = { coverImage: { url: "/avatars/ada.svg", alt: "A letter" } }; // its size is unknown
  const { slug } = await gateway.publish("ada", "A cover of unknown size", "A text.", [], of);
  await gateway.publish("ada", "No cover", "A text.");

  for (const [path, count] of [["/", 2], [pathname, 1], [`/posts/${slug}`, 1]] as const) {
    let release = () => {};
    const held = new Promise<void>((resolve) => (release = resolve));
    await page.route(/\/(files|avatars)\//, async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(path);
    const covers = path === "/" ? page.locator(".post-card .cover") : page.locator(".post > .cover");
    await expect(covers).not.toHaveCount(0);
    await expect(page.getByRole("button", { name: /, menu$/ })).toBeVisible();
    const boxes = async () => Promise.all((await covers.all()).slice(0, count).map((cover) => cover.boundingBox()));
    const before = await boxes();
    expect(before.every((box) => (box?.height ?? 0) > 100)).toBe(true);
    release();
    for (const cover of (await covers.all()).slice(0, count)) {
      await cover.scrollIntoViewIfNeeded();
      await expect.poll(() => widthOf(cover)).toBeGreaterThan(0);
    }
    await page.evaluate(() => { scrollTo(0, 0); });
    expect(await boxes()).toEqual(before);
    expect(await page.evaluate(shift)).toBe(0);
    await page.unrouteAll({ behavior: "wait" });
  }

  await page.goto("/");
  const cards = page.getByRole("article");
  await expect(cards.filter({ hasText: "No cover" }).locator(".cover")).toHaveCount(0);
  const image = cards.filter({ hasText: "Two hundred looms" }).getByRole("img", { name: "Looms" });
  await expect(image).toHaveAttribute("loading", "lazy");
  await image.click({ force: true }); // leads to the post, as the title does
  await expect(page).toHaveURL(pathname);
  await gateway.publish("ada", "The newest has a cover", "A text.", [], of);
  await page.goto("/");
  await expect(cards.first().locator(".cover")).toHaveAttribute("fetchpriority", "high");
  await expect(cards.first().locator(".cover")).not.toHaveAttribute("loading");
});

test.describe("pages with pictures", () => {
  test.beforeAll(async ({ browser, gateway }) => {
    const page = await browser.newPage();
    const upload = await gateway.upload("grace", await draw(page, 1200, 630));
    const text = "The loom weaves flowers and leaves, and it is told so by cards. ".repeat(5);
    await gateway.publish("grace", "Cards", text, ["looms"], { coverImage: { upload, alt: "A disc" } });
    await page.close();
  });

  for (const width of [390, 1280]) {
    for (const colorScheme of ["light", "dark"] as const) {
      test.describe(`${width} px, ${colorScheme}`, () => {
        test.use({ colorScheme, viewport: { width, height: 900 } });

        test.afterEach(async ({ page }, { title }) => {
          await expectAccessible(page);
          const path = `${shots}/${title.replaceAll(" ", "-")}-${width}-${colorScheme}.png`;
          if (shots) await page.screenshot({ path, fullPage: title !== "front page" });
        });

        test("front page", async ({ page }) => {
          await page.goto("/");
          await expect.poll(() => widthOf(page.locator(".cover").first())).toBeGreaterThan(0);
        });

        test("post", async ({ page }) => {
          await page.goto("/");
          await page.getByRole("article").filter({ has: page.locator(".cover") }).last().getByRole("heading")
            .getByRole("link").click();
          await expect.poll(() => widthOf(page.locator(".post > .cover"))).toBeGreaterThan(0);
        });

        test("editor", async ({ page }) => {
          await signInAs(page, "ada");
          await page.goto("/write");
          await page.getByLabel("Title").fill("What a lease teaches about time");
          await page.getByLabel("Text").fill("A lease is a **promise** with an end.");
          const cover = page.getByRole("group", { name: "Cover" });
          await choose(page, cover.getByRole("button"), [await draw(page, 1200, 630)]);
          await expect(cover.getByRole("button", { name: "Remove" })).toBeVisible();
          await give(page.getByLabel("Text"), "drop", await draw(page, 400, 300));
          await page.getByLabel("What the picture shows").last().fill("A disc over a plain");
          await expect(page.getByRole("button", { name: "Done" })).toBeVisible();
          await expect(page.getByRole("region", { name: "Preview" }).getByRole("img")).toBeVisible();
          await page.route("**/uploads/**", () => undefined);
          await give(page.getByLabel("Text"), "paste", await draw(page, 400, 300));
          await expect(page.getByRole("progressbar")).toBeVisible();
          const preview = page.getByRole("region", { name: "Preview" });
          await expect(preview).toContainText("Uploading…");
          await expect.poll(() => widthOf(preview.getByRole("img"))).toBeGreaterThan(0);
        });

        test("empty editor", async ({ page }) => {
          await signInAs(page, "ada");
          await page.goto("/write");
          await expect(page.getByRole("button", { name: "Add a cover" })).toBeVisible();
        });

        test("picture of the profile", async ({ page }) => {
          await signInAs(page, "alan");
          await page.goto("/settings");
          await choose(page, page.getByRole("button", { name: "Upload a picture" }), [await draw(page, 300, 300)]);
          await expect(page.getByLabel("Picture")).toHaveValue(/^\/files\//);
        });
      });
    }
  }
});

/** The sum of the layout shifts of a page that nobody has touched. */
function shift() {
  return new Promise<number>((resolve) => {
    let sum = 0;
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) sum += (entry as unknown as { value: number }).value;
    }).observe({ type: "layout-shift", buffered: true });
    setTimeout(() => { resolve(sum); }, 200);
  });
}
