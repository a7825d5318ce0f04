import { expect, expectAccessible, signInAs, test, windowOf } from "./fixtures";

test.use({ expectedErrors: /Failed to load resource|WebSocket/ });

test("a draft is saved as one types, is its author's alone, and becomes a post", async ({ page, browser, gateway }) => {
  await signInAs(page, "ada");
  await page.goto("/write");
  await page.getByLabel("Title").fill("A draft of looms");
  await page.getByLabel("Text").fill("One.");
  await page.getByRole("button", { name: "Save as a draft" }).click();
  await expect(page).toHaveURL(/\/drafts\/./);
  const address = page.url();
  await expect(page.getByText("Saved as a draft.")).toBeVisible();
  await page.getByLabel("Text").fill("One. And");
  await page.getByLabel("Text").press("End");
  await page.getByLabel("Text").pressSequentially(" two.");
  await expect(page.getByText("Not saved yet.")).toBeVisible();
  await expect(page.getByText("Saved as a draft.")).toBeVisible();
  await page.getByText("Search engines and previews").click();
  await page.getByLabel("Headline").fill("Looms, explained");
  await page.getByLabel("Description").fill("How a loom reads its cards.");
  await page.getByLabel("Canonical URL").fill("elsewhere.example/looms");
  await expect(page.getByText("Canonical URL: must be an https or http URL")).toBeVisible();
  await page.getByLabel("Canonical URL").fill("https://elsewhere.example/looms");
  await expect(page.getByText("Saved as a draft.")).toBeVisible();
  await expectAccessible(page);

  const other = await windowOf(browser, gateway, "ada"); // has nothing of this one's session storage
  await other.goto("/drafts");
  await other.getByRole("link", { name: "A draft of looms" }).click();
  await expect(other.getByLabel("Text")).toHaveValue("One. And two.");
  await expect(other.getByLabel("Headline")).toHaveValue("Looms, explained");
  await expect(other.getByLabel("Canonical URL")).toHaveValue("https://elsewhere.example/looms");
  await other.context().close();
  const stranger = await windowOf(browser, gateway, "grace");
  await stranger.goto(address);
  await expect(stranger.getByRole("heading", { name: "Not found" })).toBeVisible();
  await stranger.context().close();

  await page.getByLabel("Text").fill("Published.");
  await page.getByRole("button", { name: "Publish" }).click(); // before it is saved
  await expect(page.getByRole("heading", { level: 1, name: "A draft of looms" })).toBeVisible();
  await expect(page.locator(".post .content")).toHaveText("Published.");
  const description = page.locator("meta[name=description]");
  const canonical = page.locator("link[rel=canonical]");
  await expect(page).toHaveTitle("Looms, explained · Byline");
  await expect(description).toHaveAttribute("content", "How a loom reads its cards.");
  await expect(canonical).toHaveAttribute("href", "https://elsewhere.example/looms");
  const post = page.url();
  await page.goto(address);
  await expect(page).toHaveURL(post);
  await page.goto("/drafts");
  await expect(page.getByRole("heading", { level: 1, name: "Drafts" })).toBeVisible();
  await expect(page.getByRole("link", { name: "A draft of looms" })).toHaveCount(0);
  await expect(canonical).toHaveCount(0);

  await page.goto(`${post}/edit`);
  await page.getByText("Search engines and previews").click();
  for (const label of ["Headline", "Description", "Canonical URL"]) await page.getByLabel(label).fill("");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page).toHaveTitle("A draft of looms · Byline");
  await expect(description).toHaveAttribute("content", "Published.");
  await expect(canonical).toHaveCount(0);
});

test("of two windows with one draft the later one is asked; a draft is deleted", async ({ page, browser, gateway }) => {
  await signInAs(page, "alan");
  await page.goto("/write");
  await page.getByLabel("Title").fill("Two windows");
  await page.getByLabel("Text").fill("Both.");
  await page.getByRole("button", { name: "Save as a draft" }).click();
  await expect(page).toHaveURL(/\/drafts\/./);
  const other = await windowOf(browser, gateway, "alan");
  await other.goto(page.url());
  await other.getByLabel("Text").fill("Theirs.");
  await expect(other.getByText("Not saved yet.")).toBeVisible();
  await expect(other.getByText("Saved as a draft.")).toBeVisible();
  await other.context().close();

  await page.getByLabel("Text").fill("Mine.");
  await expect(page.getByRole("heading", { name: "It was edited elsewhere meanwhile" })).toBeFocused();
  await expect(page.getByRole("blockquote")).toContainText("Theirs.");
  await page.getByRole("button", { name: /Go on with mine/ }).click();
  await expect(page.getByText("Saved as a draft.")).toBeVisible();
  await page.getByRole("button", { name: "Delete…" }).click();
  await page.getByRole("button", { name: "Delete for ever" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Drafts" })).toBeVisible();
  await expect(page.getByRole("link", { name: "Two windows" })).toHaveCount(0);
});

test("what is written to a draft while the gateway is away is saved when it is back", async ({ page, gateway }) => {
  await signInAs(page, "ada");
  await page.goto("/write");
  await page.getByLabel("Title").fill("Outage");
  await page.getByLabel("Text").fill("Before.");
  await page.getByRole("button", { name: "Save as a draft" }).click();
  await expect(page).toHaveURL(/\/drafts\/./);
  await expect(page.getByText("Saved as a draft.")).toBeVisible();
  await gateway.kill();
  await page.getByLabel("Text").fill("Meanwhile.");
  await expect(page.getByText("The server does not respond.")).toBeVisible();
  await expect(page.getByLabel("Text")).toHaveValue("Meanwhile.");
  await gateway.restart();
  await expect(page.getByText("Saved as a draft.")).toBeVisible({ timeout: 30_000 });
  await page.evaluate(() => { sessionStorage.clear(); }); // the text of this window
  await page.reload();
  await expect(page.getByLabel("Text")).toHaveValue("Meanwhile.");
});
