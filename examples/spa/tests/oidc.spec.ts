import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test as base } from "./fixtures";
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

test("a refused token is renewed at the provider, and nothing is lost if it cannot be", async ({ page, provider }) => {
  const refused = new Set<string>();
  await page.route("**/graphql", async (route) => {
    const headers = route.request().headers();
    const token = headers.authorization?.replace("Bearer ", "") ?? "";
    return route.fallback(refused.has(token) ? { headers: { ...headers, authorization: "Bearer expired" } } : {});
  });

  await page.goto("/write");
  await page.getByRole("button", { name: "Continue to sign in" }).click();
  await page.getByLabel("Username").fill("Someone");
  await page.getByRole("button", { name: "Begin" }).click();
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
  let sockets = 0;
  await page.routeWebSocket("**/graphql", (socket) => {
    sockets++;
    socket.onMessage(() => void socket.close({ code: 4403 })); // connection_init, with the token
  });
  await page.reload();
  await expect(async () => {
    const opened = sockets;
    await page.waitForTimeout(11_000); // longer than any pause between retries
    expect(opened).toBeGreaterThan(1); // the second after an attempt to renew the token
    expect(sockets).toBe(opened);
  }).toPass({ timeout: 60_000 });
  await expect(page.locator(".status-bar")).toBeEmpty();

  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await expect(page.getByRole("alert").filter({ hasText: "Your session has ended." })).toBeVisible();
  provider.renews = true;
  await page.getByRole("alert").getByRole("link", { name: "Sign in" }).click();
  await page.getByRole("button", { name: "Continue to sign in" }).click();
  await expect(page.getByLabel("Write a comment")).toHaveValue("Is anyone there?");

  // The response of a comment arrives after the sign-out has begun and before it has ended.
  let signOut = () => {};
  const signingOut = new Promise<void>((resolve) => (signOut = resolve));
  let answer = () => {};
  const answered = new Promise<void>((resolve) => (answer = resolve));
  await page.route("**/openid-configuration", async (route) => {
    signOut();
    await answered;
    await route.fallback();
  });
  await page.route("**/graphql", async (route) => {
    const response = await route.fetch();
    await signingOut;
    await route.fulfill({ response });
    // The page has it, unless it is left: then it was a later request.
    await page.evaluate(() => new Promise(requestAnimationFrame)).catch(() => undefined);
    answer();
  });
  await page.getByRole("button", { name: "Comment", exact: true }).click();
  await expect(page.getByRole("listitem")).toHaveText(/Is anyone there\?/);

  await page.getByRole("button", { name: "Someone, menu" }).click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByRole("link", { name: "Sign in" })).toBeVisible();
  expect(await page.evaluate(() => Object.keys(sessionStorage))).toEqual(["byline.scroll"]);
});

test("a reader whose session has ended reads without signing in", async ({ page, provider }) => {
  await page.goto("/");
  const post = page.getByRole("article").first().getByRole("heading").getByRole("link");
  const [title, address] = [await post.textContent(), await post.getAttribute("href")];
  await page.goto("/write");
  await page.getByRole("button", { name: "Continue to sign in" }).click();
  await page.waitForURL("**/w*");
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
