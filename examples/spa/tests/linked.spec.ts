import { join } from "node:path";
import type { APIRequestContext } from "@playwright/test";
import ts from "typescript";
import { expect, test } from "./fixtures";
import { Gateway } from "./gateway";

// JSON-LD, checked by TypeScript against the types that schema-dts has of schema.org's vocabulary.
let site: Gateway;
test.beforeAll(async () => {
  site = await Gateway.start(["--site", join(import.meta.dirname, "../dist"), "--site-url", "https://blog.example"]);
});
test.afterAll(() => site.stop());

async function linkedOf(request: APIRequestContext, path: string) {
  const html = await (await request.get(site.own + path)).text();
  return /<script type="application\/ld\+json">(.*?)<\/script>/s.exec(html)?.[1] ?? "";
}

/** Returns what TypeScript says of each JSON-LD text, "" if it is valid. */
function check(texts: string[]) {
  const action = "WithActionConstraints<SearchAction>"; // SearchAction alone has no query-input
  const lines = texts.map((text, n) => {
    const graph = JSON.stringify(JSON.parse(text));
    const typed = graph.replace(/(?<="potentialAction":)\{.*?\}\}/, `($& satisfies ${action}) as SearchAction`);
    return `export const graph${n}: Graph = ${typed};`;
  });
  const imports = 'import type { Graph, SearchAction, WithActionConstraints } from "schema-dts";';
  const source = [...lines, imports].join("\n");
  const options: ts.CompilerOptions = {
    strict: true, noEmit: true, skipLibCheck: true, types: [], module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
  };
  const name = join(import.meta.dirname, "graphs.ts"); // in memory only
  const host = ts.createCompilerHost(options);
  const read = host.getSourceFile.bind(host);
  host.getSourceFile = (file, ...rest) =>
    file === name ? ts.createSourceFile(file, source, ts.ScriptTarget.ESNext) : read(file, ...rest);
  const results = lines.map(() => "");
  for (const { file, start, messageText } of ts.getPreEmitDiagnostics(ts.createProgram([name], options, host))) {
    const text = ts.flattenDiagnosticMessageText(messageText, "\n");
    const line = file?.fileName === name ? file.getLineAndCharacterOfPosition(start ?? 0).line : lines.length;
    if (line === lines.length) throw new Error(text); // not of a graph
    results[line] = `${results[line]}${text}\n`;
  }
  return results;
}

test("the JSON-LD of all pages is schema.org's, and a mistake would be found", async ({ request }) => {
  const front = await linkedOf(request, "/");
  const [, address = ""] = /"url":"https:\/\/blog\.example(\/posts\/[^"]+)"/.exec(front) ?? [];
  const post = await linkedOf(request, address);
  const tag = await linkedOf(request, "/tags/bread");
  const author = await linkedOf(request, "/authors/grace");
  const mistakes = [
    front.replace('"Blog"', '"Blogg"'),
    front.replace('"query-input"', '"queryinput"'),
    front.replace('"urlTemplate"', '"template"'),
    post.replace('"BlogPosting"', '"BlogPost"'),
    post.replace('"headline"', '"heading"'),
    post.replace('"datePublished":"', '"datePublished":true,"x":"'),
    post.replace('"position":1', '"position":{}'),
    tag.replace('"CollectionPage"', '"TagPage"'),
    author.replace('"mainEntity"', '"mainEntities"'),
    author.replace('"alternateName"', '"username"'),
  ];
  const pages = [front, post, tag, author];
  for (const text of mistakes) expect(pages).not.toContain(text);
  const results = check([...pages, ...mistakes]);
  expect(results.slice(0, pages.length)).toEqual(pages.map(() => ""));
  const invalid = results.slice(pages.length);
  expect(invalid.filter((result) => result === ""), JSON.stringify(invalid)).toEqual([]);
});
