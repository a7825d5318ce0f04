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
