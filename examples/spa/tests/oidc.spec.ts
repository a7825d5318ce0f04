import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Page } from "@playwright/test";
import { expect, onMutation, test as base } from "./fixtures";
import { Gateway } from "./gateway";
import { Provider } from "./provider";

// A build whose users sign in at a provider, and a gateway that accepts the provider's tokens.
const test = base.extend<object, { provider: Provider }>({
  provider: [
    async ({}, use) => {
      const provider = await new Provider().start();
      await use(provider);
      provider.stop();
    },
    { scope: "worker" },
  ],
  gateway: [
    async ({ provider }, use) => {
      const DIST = mkdtempSync(join(tmpdir(), "byline-spa-dist-"));
      const variables = {
        VITE_OIDC_AUTHORITY: provider.url,
        VITE_OIDC_CLIENT_ID: "spa",
        VITE_OIDC_SCOPE: "openid offline_access",
        DIST,
      };
      const cwd = join(import.meta.dirname, "..");
      const env = { ...process.env, ...variables };
      execFileSync("npx", ["vite", "build", "--outDir", DIST], { env, cwd, stdio: "pipe" });
      const gateway = await Gateway.start(["--auth-issuer", provider.url, "--auth-audience", "blog"], variables);
      await use(gateway);
      await gateway.stop();
      rmSync(DIST, { recursive: true });
    },
    { scope: "worker", timeout: 120_000 },
  ],
});

test.use({ expectedErrors: /401|400|SessionEndedError/ });

/** Signs in at the provider, and the first time chooses a username. Returns on the page for a new post. */
async function signIn(page: Page) {
  await page.goto("/write");
  await page.getByRole("button", { name: "Continue to sign in" }).click();
  const [username, title] = [page.getByLabel("Username"), page.getByLabel("Title")];
  await expect(username.or(title)).toBeVisible();
  if (await username.isVisible()) {
    await username.fill("Someone");
    await page.getByRole("button", { name: "Begin" }).click();
  }
  await expect(title).toBeVisible();
}

async function signOut(page: Page) {
  await page.getByRole("button", { name: "Someone, menu" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page).toHaveURL("/");
  await expect(page.getByRole("banner").getByRole("link", { name: "Sign in" })).toBeVisible();
}

test("a refused token is renewed at the provider, and nothing is lost if it cannot be", async ({ page, provider }) => {
  const refused = new Set<string>();
  await page.route("**/graphql", async (route) => {
    const headers = route.request().headers();
    const token = headers.authorization?.replace("Bearer ", "") ?? "";
    return route.fallback(refused.has(token) ? { headers: { ...headers, authorization: "Bearer expired" } } : {});
  });

  await signIn(page);
  await page.getByLabel("Title").fill("Signed in");
  await page.getByLabel("Text").fill("By a provider.");
  expect(page.url()).not.toContain("code=");
  const [first = ""] = provider.issued.slice(-1);
  refused.add(first);
  await page.getByRole("button", { name: "Publish" }).click();
  await expect(page.getByRole("heading", { level: 1, name: "Signed in" })).toBeVisible();
  expect(provider.issued.at(-1)).not.toBe(first);

  provider.renews = false;
  for (const token of provider.issued) refused.add(token);
  await page.getByLabel("Write a comment").fill("Is anyone there?");
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await expect(page.getByRole("alert").filter({ hasText: "Your session has ended." })).toBeVisible();
  await expect(page.getByRole("listitem")).toHaveCount(0);

  // The socket is refused as well: the subscriptions end, and nothing says that the server does not respond.
  let [sockets, refusing] = [0, true];
  await page.routeWebSocket("**/graphql", (socket) => {
    sockets++;
    if (!refusing) socket.connectToServer();
    else socket.onMessage(() => void socket.close({ code: 4403 })); // connection_init, with the token
  });
  await page.clock.install();
  const unrenewed = page.waitForResponse((response) => sockets > 1 && response.url() === `${provider.url}/token`);
  await page.reload();
  await unrenewed; // for the second socket
  for (let i = 0; i < 9; i++) await page.clock.runFor("00:11"); // longer than any pause between retries
  expect(sockets).toBe(2);
  refusing = false;
  await expect(page.locator(".status-bar")).toBeEmpty();

  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await expect(page.getByRole("alert").filter({ hasText: "Your session has ended." })).toBeVisible();
  provider.renews = true;
  await page.getByRole("alert").getByRole("link", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Continue to sign in" }).click();
  await expect(page.getByLabel("Write a comment")).toHaveValue("Is anyone there?");

  // The response of a comment arrives after the sign-out has begun and before it has ended.
  let begin = () => {};
  const begun = new Promise<void>((resolve) => (begin = resolve));
  let answer = () => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  await page.route("**/openid-configuration", async (route) => {
    begin();
    await answered;
    await route.fallback();
  });
  await onMutation(page, async (route) => {
    const response = await route.fetch();
    await begun;
    await route.fulfill({ response });
    await page.evaluate(() => new Promise(requestAnimationFrame)); // the page has it
    answer();
  });
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await expect(page.getByRole("listitem")).toHaveText(/Is anyone there\?/);

  await signOut(page);
  expect(await page.evaluate(() => Object.keys(sessionStorage))).toEqual(["byline.scroll"]);
});

test("a renewal that ends after the sign-out keeps no token", async ({ page, provider }) => {
  await signIn(page);
  let leave = () => {};
  const leaving = new Promise<void>((resolve) => (leave = resolve));
  const client = await page.context().newCDPSession(page);
  await client.send("DOMStorage.enable");
  const renewed = new Promise<void>((resolve) => {
    client.on("DOMStorage.domStorageItemAdded", ({ key }) => { if (key.startsWith("oidc.user:")) resolve(); });
  });
  await onMutation(page, (route) => route.fulfill({ status: 401 }));
  await page.route(`${provider.url}/token`, async (route) => {
    await leaving;
    await route.fallback();
  });
  await page.route(({ pathname }) => pathname === "/", async (route) => {
    leave(); // the token is removed, and the next page has not loaded yet
    await renewed;
    await route.fallback();
  });
  const renewing = page.waitForRequest(`${provider.url}/token`);
  await page.getByLabel("Title").fill("Too late");
  await page.getByLabel("Text").fill("A text.");
  await page.getByRole("button", { name: "Publish" }).click();
  await renewing;
  await signOut(page);
  expect(await page.evaluate(() => Object.keys(sessionStorage))).toEqual(["byline.scroll"]);
});

test("a reader whose session has ended reads without signing in", async ({ page, provider }) => {
  await page.goto("/");
  const post = page.getByRole("article").first().getByRole("heading").getByRole("link");
  const [title, address] = [await post.textContent(), await post.getAttribute("href")];
  await signIn(page);
  provider.renews = false;
  await page.route(/\/graphql(\?|$)/, (route) => {
    const headers = route.request().headers();
    return route.fallback(headers.authorization ? { headers: { ...headers, authorization: "Bearer expired" } } : {});
  });
  await page.goto(address ?? "");
  await expect(page.getByRole("alert").filter({ hasText: "Your session has ended." })).toBeVisible();
  await page.getByRole("button", { name: "Read without signing in" }).click();
  await expect(page.getByRole("heading", { level: 1, name: title ?? "" })).toBeVisible();
  await expect(page.getByRole("banner").getByRole("link", { name: "Sign in" })).toBeVisible();
  provider.renews = true;
});
