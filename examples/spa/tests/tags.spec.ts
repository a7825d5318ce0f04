import { expect, signInAs, test } from "./fixtures";

test("a post with tags is found by each of them, until they are taken away", async ({ page }) => {
  await signInAs(page, "ada");
  await page.goto("/write");
  await page.getByLabel("Title").fill("A post with tags");
  await page.getByLabel("Text").fill("A text.");
  await page.getByLabel("Tags").fill("Looms, a/b");
  await expect(page.getByText("“a/b” cannot be a tag")).toBeVisible();
  await page.getByRole("button", { name: "Publish" }).click();
  await expect(page).toHaveURL(/\/write$/); // it is not sent
  await page.getByLabel("Tags").fill("Looms, #東京, looms, c#, Node.js");
  await page.getByRole("button", { name: "Publish" }).click();

  const tags = page.getByRole("list", { name: "Tags" });
  await expect(tags.getByRole("listitem")).toHaveText(["Looms", "東京", "c#", "Node.js"]);
  await tags.getByRole("link", { name: "東京" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "#東京" })).toBeVisible();
  const post = page.getByRole("article").getByRole("link", { name: "A post with tags" });
  await expect(async () => {
    await page.reload(); // a list of a tag has a post a moment after it was published
    await expect(post).toBeVisible({ timeout: 500 });
  }).toPass();

  for (const [tag, key] of [["c#", "c#"], ["Node.js", "node.js"]] as const) {
    await post.click();
    await tags.getByRole("link", { name: tag }).click();
    await expect(page.getByRole("heading", { level: 1, name: `#${key}` })).toBeVisible();
    await page.reload(); // the server finds the page, too
    await expect(post).toBeVisible();
  }

  await post.click();
  await page.getByRole("link", { name: "Edit" }).click();
  await expect(page.getByLabel("Tags")).toHaveValue("Looms, 東京, c#, Node.js");
  await page.getByLabel("Tags").fill("");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "A post with tags" })).toBeVisible();
  await expect(tags).toHaveCount(0);
});

test("a tag in another spelling leads to the tag, and what cannot be one to no page", async ({ page }) => {
  await page.goto("/tags/Bread");
  await expect(page).toHaveURL(/\/tags\/bread$/);
  await expect(page.getByRole("heading", { level: 1, name: "#bread" })).toBeVisible();
  await page.goto("/tags/C%23");
  await expect(page).toHaveURL(/\/tags\/c%23$/);
  await expect(page.getByRole("heading", { level: 1, name: "#c#" })).toBeVisible();
  await page.goto("/tags/a%2Fb");
  await expect(page.getByRole("heading", { name: "Not found" })).toBeVisible();
});

test("the list of a tag goes on as one scrolls", async ({ page, gateway }) => {
  for (let i = 0; i < 12; i++) await gateway.publish("ada", `Looms ${i}`, "A text.", ["jacquard"]);
  await expect(async () => {
    await page.goto("/tags/jacquard");
    await expect(page.getByText("12 posts")).toBeVisible({ timeout: 500 });
  }).toPass();
  await page.mouse.wheel(0, 100_000);
  await expect(page.getByRole("article")).toHaveCount(12);
});
