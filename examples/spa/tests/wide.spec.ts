import { expect, expectAccessible, signInAs, test } from "./fixtures";

test.use({ viewport: { width: 390, height: 844 } });

const row = (cell: (n: number) => string) => `|${Array.from({ length: 11 }, (_, n) => cell(n)).join("|")}|`;
const table = `${row((n) => `Column ${n}`)}\n${row(() => "---")}\n${row((n) => `${n},000,000`)}`;
const word = "Donaudampfschifffahrt".repeat(20);

// Each is wider than the page, or would be.
for (const [name, text] of Object.entries({
  "a table of eleven columns": table,
  "a table with a long word": `|a|b|\n|---|---|\n|${word}|2|`,
  "a table in a quote in a list": `- > ${table.replaceAll("\n", "\n  > ")}`,
  "a line of code": `\`\`\`\n${"x".repeat(500)} ${"let y = 1; ".repeat(50)}\n\`\`\`\n\nand \`${"z".repeat(300)}\``,
  "a word, a link, a heading": `# ${word}\n\n${word}\n\n<https://example.com/${word}>\n\n**${word}**`,
  "quotes within each other": `${"> ".repeat(30)}A text.`,
  "lists within each other": `${"- ".repeat(30)}A text.`,
  "lists in quotes": `${"> - ".repeat(15)}A text.\n\n${"> ".repeat(30)}    let code = 1;`,
})) {
  test(`${name} does not widen the page`, async ({ page, gateway }) => {
    const { id, slug } = await gateway.publish("ada", name, text);
    await gateway.comment("grace", id, text);
    await signInAs(page, "ada");
    await page.goto(`/posts/${slug}`);
    await expect(page.locator(".comment .text")).not.toBeEmpty();
    await expectAccessible(page);
    for (const wide of await page.locator(".post .content > table").all()) {
      if (name.includes("eleven")) {
        expect(await wide.evaluate((table) => table.scrollWidth - table.clientWidth)).toBeGreaterThan(0);
        await wide.focus();
        await page.keyboard.press("ArrowRight");
        await expect.poll(() => wide.evaluate((table) => table.scrollLeft)).toBeGreaterThan(0);
      }
    }
    await page.goto("/");
    await expect(page.getByRole("link", { name })).toBeVisible();
    await expectAccessible(page);
    await page.goto(`/posts/${slug}/edit`);
    await expect(page.getByRole("region", { name: "Preview" }).locator(".rendered")).not.toBeEmpty();
    await expectAccessible(page);
  });
}

test("a title without a space does not widen the page", async ({ page, gateway }) => {
  const { slug } = await gateway.publish("ada", word.slice(0, 200), word, [word.slice(0, 30), "tag"]);
  for (const path of [`/posts/${slug}`, "/", "/authors/ada", `/tags/${word.slice(0, 30).toLowerCase()}`]) {
    await page.goto(path);
    await expect(page.getByText(word.slice(0, 200)).first()).toBeVisible();
    await expectAccessible(page);
  }
});
