import { expect, onMutation, signInAs, test } from "./fixtures";

test.use({ expectedErrors: /Failed to load resource|WebSocket/ });

test("the gateway is killed while a comment is sent and a post is written", async ({ page, context, gateway }) => {
  const { slug } = await gateway.publish("alan", "Before the fall");
  await signInAs(page, "ada");
  await page.goto(`/posts/${slug}`);
  const writing = await context.newPage();
  await signInAs(writing, "ada");
  await writing.goto("/write");
  await writing.getByLabel("Title").fill("Half a post");

  // The gateway has written the comment, but is killed before the response is there.
  await onMutation(page, async (route) => {
    await route.fetch();
    await gateway.kill();
    await route.abort();
  });
  await page.getByLabel("Write a comment").fill("Sent into the dark.");
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await expect(page.getByText("The server does not respond.")).toBeVisible();
  const comment = page.getByRole("listitem").filter({ hasText: "Sent into the dark." });
  await expect(comment).toHaveCount(1);
  await expect(page.getByRole("button", { name: "Sending…" })).toBeVisible();
  await writing.getByLabel("Text").fill("Written while nobody listened.");
  await writing.getByRole("button", { name: "Publish" }).click();
  await expect(writing.getByText("The server does not respond.")).toBeVisible();

  const counts = page.evaluate(countComments);
  await gateway.restart();
  await expect(page.getByRole("button", { name: "Comment", exact: true })).toBeVisible();
  await expect(page.getByText("The server does not respond.")).toBeHidden();
  await expect(page.getByRole("heading", { name: "1 comment" })).toBeVisible();
  expect(await counts).toBe(1);
  await expect(writing.getByRole("heading", { level: 1, name: "Half a post" })).toBeVisible();
  await page.reload();
  await expect(comment).toHaveCount(1);
  await page.goto("/authors/ada");
  await expect(page.getByRole("link", { name: "Half a post" })).toHaveCount(1);
});

test("a reload while a comment is sent loses and doubles nothing", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("alan", "Reloaded");
  await signInAs(page, "ada");
  await page.goto(`/posts/${slug}`);
  let lost = true;
  await page.route("**/graphql", async (route) => {
    if (!lost) return route.fallback();
    await route.fetch(); // written, and the response is lost
    await route.abort();
  });
  await page.getByLabel("Write a comment").fill("Did it arrive?");
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await expect(page.getByText("The server does not respond.")).toBeVisible();
  lost = false;
  await page.reload();
  await expect(page.getByLabel("Write a comment")).toHaveValue("Did it arrive?");
  await expect(page.getByText("This comment was being sent.")).toBeVisible();
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await expect(page.getByLabel("Write a comment")).toHaveValue("");
  await expect(page.getByRole("listitem").filter({ hasText: "Did it arrive?" })).toHaveCount(1);
  await page.reload();
  await expect(page.getByRole("listitem")).toHaveCount(1);
});

test("without the gateway the page says so, and loads when it is there", async ({ page, gateway }) => {
  await gateway.kill();
  await page.goto("/");
  await expect(page.getByText("The server does not respond.")).toBeVisible();
  await page.getByRole("button", { name: "Try now" }).click();
  await gateway.restart();
  await expect(page.getByRole("article")).toHaveCount(10);
  await expect(page.getByText("The server does not respond.")).toBeHidden();
});

test("a slow response is waited for, and the page says so", async ({ page }) => {
  let release = () => {};
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route("**/graphql?*", async (route) => {
    await held;
    await route.fallback();
  });
  await page.goto("/authors/grace");
  await expect(page.getByText("This takes longer than usual.")).toBeVisible();
  release();
  await expect(page.getByRole("article").first()).toBeVisible();
  await expect(page.getByText("This takes longer than usual.")).toBeHidden();
});

test("offline is shown, and what was missed is there afterwards", async ({ page, context, gateway }) => {
  const { id, slug } = await gateway.publish("alan", "In the tunnel");
  await signInAs(page, "ada");
  await page.goto(`/posts/${slug}`);
  await expect(page.getByRole("heading", { name: "0 comments" })).toBeVisible();
  await context.setOffline(true);
  await page.getByRole("button", { name: "Like" }).click();
  await expect(page.getByText("You are offline.")).toBeVisible();
  await gateway.comment("grace", id, "Where are you?");
  await context.setOffline(false);
  await expect(page.getByText("You are offline.")).toBeHidden();
  await expect(page.getByText("1 like", { exact: true })).toBeVisible();
  await expect(page.getByRole("listitem").filter({ hasText: "Where are you?" })).toBeVisible();
});

/** Returns the highest number of comments that were shown at one time in the next four seconds. */
async function countComments() {
  let most = 0;
  const end = performance.now() + 4000;
  while (performance.now() < end) {
    most = Math.max(most, document.querySelectorAll(".comments li").length);
    await new Promise(requestAnimationFrame);
  }
  return most;
}
