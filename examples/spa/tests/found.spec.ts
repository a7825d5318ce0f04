import { expect, signInAs, test } from "./fixtures";

test("finds what was published, edited and deleted a moment ago", async ({ page, gateway }) => {
  const { id, slug } = await gateway.publish("alan", "On the velocipede", "It has two wheels, and *needs* no horse.");
  await signInAs(page, "alan");
  await page.goto("/search?q=velocipedes+wheel");
  const post = page.getByRole("article").filter({ hasText: "On the velocipede" });
  await expect(post).toBeVisible();
  await expect(post.locator("mark").first()).toHaveText("wheels");
  await page.goto(`/posts/${slug}/edit`);
  await page.getByLabel("Title").fill("On the penny-farthing");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "On the penny-farthing" })).toBeVisible();
  await page.keyboard.press("/");
  await page.getByRole("searchbox").fill('"penny farthing" horse');
  await expect(page.getByRole("article").getByRole("heading")).toHaveText("On the penny-farthing");
  await page.getByRole("link", { name: "Newest" }).click();
  await expect(page.getByRole("article").locator("mark").first()).toBeVisible();
  await gateway.delete("alan", id);
  await page.reload();
  await expect(page.getByText("No posts match")).toBeVisible();
});

test("signing in and choosing a username return to the search", async ({ page }) => {
  await page.goto("/search?order=newest");
  await page.getByRole("searchbox").fill('"C# & 100%41"');
  await expect(page).toHaveURL(/q=/);
  await expect(page.locator("[aria-busy=true]")).toHaveCount(0);
  const search = page.url();
  const header = page.getByRole("banner");
  await header.getByRole("link", { name: "Sign in" }).click();
  await header.getByRole("link", { name: "Sign in" }).click(); // which changes nothing
  await page.getByLabel(/Or anyone else/).fill("Searcher");
  await page.getByRole("button", { name: "Sign in" }).click();
  await header.getByRole("link", { name: "Choose a name" }).click();
  await page.getByRole("button", { name: "Begin" }).click();
  await expect(header.getByRole("button", { name: "Searcher, menu" })).toBeVisible();
  await expect(page).toHaveURL(search);
  await expect(page.getByRole("searchbox")).toHaveValue('"C# & 100%41"');
  await expect(page.locator("[aria-busy=true]")).toHaveCount(0);
});
