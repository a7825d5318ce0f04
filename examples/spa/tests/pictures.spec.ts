import type { Page } from "@playwright/test";
import { expect, signInAs, test } from "./fixtures";
import { asByPhone, choose, decodedWidth, draw, give, widthOf, type TestFile } from "./files";

async function write(page: Page, title: string) {
  await signInAs(page, "ada");
  await page.goto("/write");
  await page.getByLabel("Title").fill(title);
  await page.getByLabel("Text").fill("Before.");
}

const coverOf = (page: Page) => page.getByRole("group", { name: "Cover" });
const publish = (page: Page) => page.getByRole("button", { name: "Publish" }).click();
const add = (page: Page, file: TestFile) => choose(page, page.getByRole("button", { name: "Add a picture" }), [file]);

/** Collects the bodies that a page uploads. */
async function uploadsOf(page: Page) {
  const bodies: Buffer[] = [];
  await page.route("**/uploads/**", (route) => {
    bodies.push(route.request().postDataBuffer() ?? Buffer.alloc(0));
    return route.continue();
  });
  return bodies;
}

test("a picture that is chosen is in the text, the preview, and the post", async ({ page }) => {
  await write(page, "A chosen picture");
  const text = page.getByLabel("Text");
  await add(page, await draw(page, 400, 300));
  const field = page.getByLabel("What the picture shows");
  await expect(field).toBeFocused();
  await page.keyboard.type("A loom [in] 1804");
  await expect(text).toHaveValue(/^Before\.\n\n!\[A loom \\\[in\\\] 1804\]\(\/files\/\S+\.jpg\)\n\n$/);
  const preview = page.getByRole("region", { name: "Preview" }).getByRole("img", { name: "A loom [in] 1804" });
  await expect.poll(() => widthOf(preview)).toBe(400); // the gateway does not show it yet
  await page.keyboard.press("Enter");
  await expect(text).toBeFocused();
  await page.keyboard.type("\n\nAfter.");
  await expect(text).toHaveValue(/1804\]\(\S+\)\n\nAfter\.\n\n$/);
  await publish(page);
  const picture = page.locator(".post .content").getByRole("img", { name: "A loom [in] 1804" });
  await expect.poll(() => widthOf(picture)).toBe(400);
});

for (const event of ["drop", "paste"] as const) {
  test(`${event}: pictures go into the text where the cursor is, and become the cover`, async ({ page }) => {
    await write(page, `Pictures by ${event}`);
    const text = page.getByLabel("Text");
    await text.fill("One.\n\nTwo.");
    await text.focus();
    await text.evaluate((area: HTMLTextAreaElement) => { area.setSelectionRange(4, 4); });
    await give(text, event, await draw(page, 300, 200, { type: "image/png" }));
    await expect(text).toHaveValue(/^One\.\n\n!\[\]\(\/files\/\S+\.png\)\n\nTwo\.$/);
    await page.getByRole("button", { name: "Done" }).click();
    const empty = coverOf(page).getByRole("button", { name: "Add a cover" });
    await give(empty, event, await draw(page, 600, 315, { type: "image/webp" }));
    await expect(coverOf(page).getByRole("button", { name: "Remove" })).toBeVisible();
    await publish(page);
    await expect.poll(() => widthOf(page.locator(".post .content img"))).toBe(300);
    await expect.poll(() => widthOf(page.locator(".post > .cover"))).toBe(600);
  });
}

test("a text that is pasted with a picture of it stays a text", async ({ page }) => {
  await write(page, "From a word processor");
  const prevented = await page.getByLabel("Text").evaluate((area) => {
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File(["x"], "picture.png", { type: "image/png" }));
    clipboardData.setData("text/plain", "A text.");
    clipboardData.setData("text/html", "<p>A text.</p>");
    return !area.dispatchEvent(new ClipboardEvent("paste", { bubbles: true, cancelable: true, clipboardData }));
  });
  expect(prevented).toBe(false);
  await expect(page.getByRole("group", { name: /^Picture/ })).toHaveCount(0);
});

test("photos are uploaded smaller, upright, and without the place", async ({ page }) => {
  await write(page, "Photos");
  const bodies = await uploadsOf(page);
  const pictures = [
    { file: asByPhone(await draw(page, 300, 200)), width: 200 }, // small, but it has a place
    { file: asByPhone(await draw(page, 2000, 3000)), width: 2000 },
    { file: await draw(page, 700, 700, { type: "image/png", noise: true }), width: 700 }, // 1.5 MB
    { file: await draw(page, 3000, 30, { type: "image/png", transparent: true }), width: 2000 },
  ];
  for (const [i, { file, width }] of pictures.entries()) {
    await add(page, file);
    await page.getByRole("button", { name: "Done" }).click();
    const body = bodies[i] ?? Buffer.alloc(0);
    expect(body.includes("GPS")).toBe(false);
    expect(await decodedWidth(page, body)).toBe(width);
    expect(body.length).toBeLessThan(1_000_000);
  }
  await expect(page.getByLabel("Text")).toHaveValue(/(\(\/files\/\S+\.jpg\)\s+!\[\]){3}\(\/files\/\S+\.webp\)\n\n$/);
});

test.describe("an upload", () => {
  test.use({ expectedErrors: /Failed to load resource/ });

  test("shows how far it is, can be canceled, and tried again", async ({ page }) => {
    await write(page, "A slow upload");
    const client = await page.context().newCDPSession(page);
    const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 50_000 };
    const file = await draw(page, 500, 500, { type: "image/png", noise: true }); // 750 kB
    await client.send("Network.enable");
    await client.send("Network.emulateNetworkConditions", slow);
    const text = page.getByLabel("Text");
    await add(page, file);
    const progress = page.getByRole("progressbar");
    const value = () => progress.evaluate((element: HTMLProgressElement) => element.value);
    await expect.poll(value).toBeGreaterThan(0);
    expect(await value()).toBeLessThan(1);
    await expect(text).toHaveValue(/!\[Uploading…\]\(#uploading-\d+\)/);
    await expect(page.getByText("A picture is not uploaded yet.")).toBeVisible();
    await expect(page.getByRole("button", { name: "Publish" })).toHaveAttribute("aria-disabled", "true");
    const aborted = page.waitForEvent("requestfailed", (request) => request.method() === "PUT");
    await page.getByRole("button", { name: "Cancel" }).click();
    await aborted;
    await expect(text).toHaveValue("Before.\n\n");
    await expect(page.getByRole("button", { name: "Publish" })).toHaveAttribute("aria-disabled", "false");

    await client.send("Network.emulateNetworkConditions", { ...slow, uploadThroughput: -1 });
    await page.route("**/uploads/**", (route) => route.abort(), { times: 1 });
    await choose(page, coverOf(page).getByRole("button"), [file]);
    await expect(coverOf(page).getByText("The picture was not uploaded. Try again.")).toBeVisible();
    await coverOf(page).getByRole("button", { name: "Try again" }).click();
    await expect(coverOf(page).getByRole("button", { name: "Remove" })).toBeVisible();
  });

  test("that the page was left with is no longer in the text", async ({ page }) => {
    await write(page, "An upload that is left");
    await page.route("**/uploads/**", () => undefined);
    await add(page, await draw(page, 40, 30));
    await expect(page.getByLabel("Text")).toHaveValue(/#uploading/);
    await page.reload();
    await expect(page.getByLabel("Text")).toHaveValue("Before.\n\n");
    await expect(page.getByRole("button", { name: "Publish" })).toHaveAttribute("aria-disabled", "false");
  });
});

test("a file that cannot be a picture is refused before it is uploaded", async ({ page }) => {
  await write(page, "No pictures");
  const requests: string[] = [];
  page.on("request", (request) => {
    if (/createUpload|uploads/.test(request.url() + (request.postData() ?? ""))) requests.push(request.url());
  });
  const large = Buffer.concat([Buffer.from("GIF89a"), Buffer.alloc(11e6)]);
  for (const { name, mimeType, buffer, message } of [
    { name: "page.svg", mimeType: "image/svg+xml", buffer: Buffer.from("<svg/>"), message: /Choose a picture: JPEG/ },
    { name: "large.gif", mimeType: "image/gif", buffer: large, message: /has 11\.0 MB/ },
    { name: "text.png", mimeType: "image/png", buffer: Buffer.from("A text."), message: /no picture of the type/ },
  ]) {
    await add(page, { name, mimeType, buffer });
    await expect(page.getByText(message)).toBeVisible();
    await page.getByRole("button", { name: "Cancel" }).click();
  }
  await expect(page.getByLabel("Text")).toHaveValue("Before.\n\n");
  expect(requests).toEqual([]);
});

test("a file that is not what it says is refused when the post is published", async ({ page }) => {
  await write(page, "A lying file");
  const { buffer } = await draw(page, 40, 30, { type: "image/png" });
  await choose(page, coverOf(page).getByRole("button"), [{ name: "moving.gif", mimeType: "image/gif", buffer }]);
  await expect(coverOf(page).getByRole("button", { name: "Remove" })).toBeVisible();
  await publish(page);
  await expect(page.getByText(/^Cover: /)).toBeVisible();
  await expect(coverOf(page)).toHaveAttribute("data-invalid", "true");
  await coverOf(page).getByRole("button", { name: "Remove" }).click();
  await publish(page);
  await expect(page.getByRole("heading", { level: 1, name: "A lying file" })).toBeVisible();
});

test("an avatar is the center of a picture", async ({ page }) => {
  const bodies = await uploadsOf(page);
  await signInAs(page, "katherine");
  await page.goto("/settings");
  await choose(page, page.getByRole("button", { name: "Upload a picture" }), [await draw(page, 900, 500)]);
  await expect(page.getByLabel("Picture")).toHaveValue(/^\/files\/\S+\.jpg$/);
  await page.getByRole("button", { name: "Save" }).click();
  await expect(page.getByText("Saved.")).toBeVisible();
  await page.goto("/authors/katherine");
  const avatar = page.locator(".author-header .avatar");
  await expect(avatar).toHaveAttribute("src", /^\/files\//);
  await expect.poll(() => widthOf(avatar)).toBe(256);
  expect(bodies).toHaveLength(1);
});
