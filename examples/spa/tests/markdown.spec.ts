import { expect, signInAs, test } from "./fixtures";

test("the preview shows Markdown as readers see it, and what one writes is in no URL", async ({ page }) => {
  const urls: string[] = [];
  page.on("request", (request) => urls.push(request.url()));
  await signInAs(page, "ada");
  await page.goto("/write");
  const preview = page.getByRole("region", { name: "Preview" });
  await page.getByLabel("Text").fill("# Punched cards\n\n**Patient**, as [Babbage](https://example.com) said.");
  await expect(preview.getByRole("heading", { level: 2, name: "Punched cards" })).toBeVisible();
  await expect(preview.locator("strong")).toHaveText("Patient");
  await expect(preview.getByRole("link", { name: "Babbage" })).toHaveAttribute("rel", /nofollow/);
  await page.getByLabel("Text").fill("1. one\n2. two");
  await expect(preview.getByRole("listitem")).toHaveText(["one", "two"]);
  const width = async () => (await preview.boundingBox())?.width;
  const before = await width();
  expect(before).toBeGreaterThan(0);
  await page.getByLabel("Text").fill(`https://example.com/${"long".repeat(40)}`);
  await expect(preview.getByRole("link")).toBeVisible();
  expect(await width()).toBe(before);
  expect(urls.filter((url) => /Punched|Babbage/.test(url))).toEqual([]);
});

test("a text with scripts is shown as text, of posts and of comments", async ({ page, gateway }) => {
  const attack = '<img src=x onerror="document.title=1"> <script>document.title = 2</script> [a](javascript:f())';
  const { id, slug } = await gateway.publish("alan", "An attack", `${attack}\n\n*And emphasis.*`);
  await gateway.comment("alan", id, `${attack} **bold**`);
  await page.goto(`/posts/${slug}`);
  await expect(page.locator(".post .content em")).toHaveText("And emphasis.");
  await expect(page.locator(".comment strong")).toHaveText("bold");
  for (const text of [page.locator(".post .content"), page.locator(".comment .text")]) {
    await expect(text).toContainText("document.title = 2");
    await expect(text.locator("img, script, [href^=javascript]")).toHaveCount(0);
  }
  await expect(page).toHaveTitle("An attack · Byline");
});

test("the address of a former title leads to the present one", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("alan", "On computable numbers");
  expect(slug).toContain("on-computable-numbers");
  await signInAs(page, "alan");
  await page.goto(`/posts/${slug}/edit`);
  await page.getByLabel("Title").fill("On uncomputable numbers");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page).toHaveURL(/\/posts\/on-uncomputable-numbers/);
  const address = page.url();
  await page.goto(`/posts/${slug}`);
  await expect(page).toHaveURL(address);
  await expect(page.getByRole("heading", { level: 1, name: "On uncomputable numbers" })).toBeVisible();
});
