import { expect, signInAs, test } from "./fixtures";

test("a new name and picture are on the author's page and posts", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("grace", "Of nanoseconds");
  await signInAs(page, "grace");
  await page.goto("/settings");
  await page.getByLabel("Name", { exact: true }).fill("Amazing Grace");
  await page.getByLabel("Picture").fill("/avatars/hopper.svg");
  await page.getByLabel("About you").fill("Nanoseconds,\ncut to length.");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved.")).toBeVisible();
  await page.goto("/authors/grace");
  await expect(page.getByRole("heading", { level: 1, name: "Amazing Grace" })).toBeVisible();
  await expect(page.getByText("Nanoseconds, cut to length.")).toBeVisible();
  await page.goto(`/posts/${slug}`);
  const author = page.locator(".post").getByRole("link", { name: "Amazing Grace" });
  await expect(author).toBeVisible();
  const width = (image: HTMLImageElement) => image.naturalWidth;
  await expect.poll(() => author.locator("img").evaluate(width)).toBeGreaterThan(0);

  await page.goto("/settings");
  await expect(page.getByLabel("About you")).toHaveValue("Nanoseconds,\ncut to length.");
  await page.getByLabel("Name", { exact: true }).fill("");
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved.")).toBeVisible();
  await page.goto("/authors/grace");
  await expect(page.getByRole("heading", { level: 1, name: "grace" })).toBeVisible();
});

test("a picture that does not load is the initial", async ({ page }) => {
  await signInAs(page, "alan");
  await page.goto("/settings");
  await page.getByLabel("Picture").fill("/pictures/none.png"); // another host is an error in the console of each page
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved.")).toBeVisible();
  await page.goto("/authors/alan");
  await expect(page.locator(".author-header .avatar")).toHaveText("A");
});

test("a new user's initial is that of their name, at once also after a rename", async ({ page, gateway }) => {
  const name = `q${Math.random().toString(36).slice(2, 8)}`;
  await gateway.join(name);
  const { slug } = await gateway.publish(name, "Of quills");
  await signInAs(page, name);
  await page.goto(`/posts/${slug}`);
  const initials = page.locator(".viewer .avatar, .post .avatar");
  await expect(initials).toHaveText(["Q", "Q"]);
  await page.getByRole("button", { name: `${name}, menu` }).click();
  await page.getByRole("link", { name, exact: true }).first().click();
  await expect(page.getByText(/writes here since (today|yesterday)/)).toBeVisible();
  await page.getByRole("button", { name: `${name}, menu` }).click();
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByLabel("Username").fill(`z${name}`);
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.locator(".viewer .avatar")).toHaveText("Z");
  await page.goBack();
  await expect(page.locator(".author-header .avatar")).toHaveText("Z");
  await page.goto(`/posts/${slug}`);
  await expect(initials).toHaveText(["Z", "Z"]);

  // The gateway's picture of an initial changes with the username.
  await page.goto("/settings");
  await page.getByLabel("Picture").fill(`/avatars/z${name}.svg`);
  await page.getByLabel("Username").fill(`x${name}`);
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.locator(".viewer img")).toHaveAttribute("src", `/avatars/x${name}.svg`);
});
