import { expect, signInAs, test, windowOf } from "./fixtures";

test("two browsers see each other's comment and like", async ({ page, browser, gateway }) => {
  const { slug } = await gateway.publish("alan", "Seen by two");
  const other = await windowOf(browser, gateway, "grace");
  await signInAs(page, "ada");
  await Promise.all([page.goto(`/posts/${slug}`), other.goto(`/posts/${slug}`)]);
  for (const [writer, reader, text] of [[page, other, "From ada."], [other, page, "From grace."]] as const) {
    await writer.getByLabel("Write a comment").fill(text);
    await writer.getByRole("button", { name: "Comment", exact: true }).click();
    await expect(reader.getByRole("listitem").filter({ hasText: text })).toHaveCount(1);
    await expect(writer.getByRole("listitem").filter({ hasText: text })).toHaveCount(1);
  }
  const comment = page.getByRole("listitem").last(); // the oldest
  await comment.getByRole("button", { name: "Edit" }).click();
  await comment.getByLabel("Your comment").fill("From ada, edited.");
  await comment.getByRole("button", { name: "Save" }).click();
  await expect(other.getByRole("listitem").filter({ hasText: "From ada, edited." })).toHaveCount(1);
  await comment.getByRole("button", { name: "Delete" }).click();
  await comment.getByRole("button", { name: "Delete this comment" }).click();
  for (const window of [page, other]) await expect(window.getByRole("listitem")).toHaveText([/From grace\./]);
  await page.getByRole("button", { name: "Like" }).click();
  await expect(other.getByText("1 like", { exact: true })).toBeVisible();
  await other.getByRole("button", { name: "Like" }).click();
  await expect(page.getByText("2 likes")).toBeVisible();
  await expect(page.getByRole("heading", { name: "1 comment" })).toBeVisible();
  await other.context().close();
});

test("a post that is deleted says so", async ({ page, gateway }) => {
  const { id, slug } = await gateway.publish("alan", "Gone soon");
  await page.goto(`/posts/${slug}`);
  await expect(page.getByRole("heading", { name: "Gone soon" })).toBeVisible();
  await gateway.delete("alan", id);
  await expect(page.getByText("This post has just been deleted.")).toBeVisible();
});

test("new posts wait for the reader", async ({ page, gateway }) => {
  await page.goto("/");
  await expect(page.getByRole("article")).toHaveCount(10);
  const first = await page.getByRole("article").first().textContent();
  for (const n of [1, 2, 3]) await gateway.publish("ada", `News ${n}`);
  await expect(page.getByRole("button", { name: "3 new posts" })).toBeVisible();
  expect(await page.getByRole("article").first().textContent()).toBe(first);
  await page.getByRole("button", { name: "3 new posts" }).click();
  await expect(page.getByRole("article").first()).toContainText("News 3");
  await expect(page.getByRole("button", { name: "3 new posts" })).toBeHidden();
});

test("subscriptions that the gateway refuses for a while start later", async ({ page, gateway }) => {
  const { id, slug } = await gateway.publish("alan", "Refused for a while");
  const subscriptions = 3; // of the page
  let sent = 0;
  await page.routeWebSocket("**/graphql", (socket) => {
    const server = socket.connectToServer();
    socket.onMessage((message) => {
      const { id, type } = JSON.parse(String(message)) as { id?: string; type: string };
      const payload = [{ message: "too many", extensions: { code: "THROTTLED", retryAfterMs: 500 } }];
      if (type !== "subscribe" || ++sent > subscriptions) server.send(message);
      else socket.send(JSON.stringify({ id, type: "error", payload }));
    });
  });
  const started = () => sent === 2 * subscriptions;
  const again = page.waitForRequest((request) => started() && request.url().endsWith("/graphql"));
  await page.goto(`/posts/${slug}`);
  await (await (await again).response())?.finished(); // else the comment may have been read
  await gateway.comment("grace", id, "As it is written.");
  await expect(page.getByRole("listitem").filter({ hasText: "As it is written." })).toBeVisible();
});

test("an event whose text could not be read leaves the text as it is", async ({ page, gateway }) => {
  const { id, slug } = await gateway.publish("alan", "Stays here", "The text of the post.");
  let changed = 0;
  await page.routeWebSocket("**/graphql", (socket) => {
    const server = socket.connectToServer();
    server.onMessage((text) => {
      const message = JSON.parse(String(text)) as { payload?: { data?: { postChanged?: object }; errors?: object[] } };
      const { payload } = message;
      if (payload?.data?.postChanged) {
        payload.data.postChanged = { ...payload.data.postChanged, contentHtml: null };
        payload.errors = [{ message: "no", path: ["postChanged", "contentHtml"], extensions: { code: "UNAVAILABLE" } }];
        changed++;
      }
      socket.send(JSON.stringify(message));
    });
  });
  await page.goto(`/posts/${slug}`);
  await expect(async () => {
    await gateway.comment("grace", id, "Another comment.");
    expect(changed).toBeGreaterThan(0);
  }).toPass();
  await expect(page.getByRole("listitem").first()).toContainText("Another comment.");
  await expect(page.getByText("The text of the post.")).toBeVisible();
});
