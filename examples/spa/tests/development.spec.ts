import { createServer } from "vite";
import { expect, signInAs, test as base } from "./fixtures";

// The pages as npm start serves them, in React's strict mode, which mounts each of them twice.
const test = base.extend<object, { development: string }>({
  development: [
    async ({ gateway }, use) => {
      process.env.BYLINE_URL = gateway.url;
      const server = await createServer({ server: { port: 0 }, logLevel: "error" });
      await server.listen();
      await use(server.resolvedUrls?.local[0] ?? "");
      await server.close();
    },
    { scope: "worker" },
  ],
  baseURL: async ({ development }, use) => use(development),
});

test.use({ expectedErrors: /UnreachableError: no response/ }); // of requests whose page is left

test("pages appear as one follows links and goes back and forward", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("ada", "There and back");
  const heading = (name: string) => page.getByRole("heading", { level: 1, name });
  await page.goto("/tags/bread");
  await expect(heading("#bread")).toBeVisible();
  await page.getByRole("link", { name: "Byline" }).click();
  await page.getByRole("link", { name: "There and back" }).click();
  await expect(heading("There and back")).toBeFocused();
  await page.locator(".post").getByRole("link", { name: "ada" }).click();
  await expect(heading("ada")).toBeFocused();
  const queries: string[] = [];
  page.on("request", (request) => request.postData()?.includes("PageQuery") && queries.push(request.url()));
  await page.goBack();
  await expect(heading("There and back")).toBeFocused();
  await page.goForward();
  await expect(heading("ada")).toBeFocused();
  await page.goBack();
  await expect(page).toHaveURL(`/posts/${slug}`);
  await expect(heading("There and back")).toBeFocused();
  expect(queries).toEqual([]); // they are in the store
});

test("each page appears, with few requests", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("ada", "In development");
  await signInAs(page, "ada");
  await page.goto("/write");
  await page.getByLabel("Title").fill("A draft in development");
  await page.getByLabel("Text").fill("A text.");
  await page.getByRole("button", { name: "Save as a draft" }).click();
  await expect(page).toHaveURL(/\/drafts\/./);

  let requests = 0;
  page.on("request", (request) => requests += request.url().includes("/graphql") ? 1 : 0);
  for (const [path, shown] of [
    ["/", page.getByRole("article").first()],
    [`/posts/${slug}`, page.getByRole("heading", { name: "In development" })],
    [`/posts/${slug}/edit`, page.getByLabel("Title")],
    ["/authors/ada", page.getByRole("article").first()],
    ["/drafts", page.getByRole("link", { name: "A draft in development" })],
    [new URL(page.url()).pathname, page.getByLabel("Title")],
    ["/settings", page.getByLabel("Name", { exact: true })],
  ] as const) {
    requests = 0;
    await page.goto(path);
    await expect(shown).toBeVisible();
    await page.waitForTimeout(1000); // in which it must not vanish, nor be requested again
    await expect(shown).toBeVisible();
    expect(requests, path).toBeLessThan(8);
  }
});
