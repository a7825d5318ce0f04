import { readFileSync } from "node:fs";
import type { Plugin } from "vite";
import { queryURL } from "../src/network/queryURL.ts";

/**
 * Has the pages load the font of Latin text beside their styles, and the front page's index.html its query beside the
 * code that sends it. app.html, which serves all other addresses, is the same without the query.
 */
export function preload(): Plugin {
  return {
    name: "preload",
    apply: "build",
    enforce: "post",
    generateBundle(_, bundle) {
      const index = bundle["index.html"];
      if (index?.type !== "asset") return;
      const font = Object.keys(bundle).find((name) => name.includes("source-serif-4-latin-wght"));
      if (!font) throw new Error("there is no font");
      const attributes = `as="font" type="font/woff2" crossorigin fetchpriority="low" href="/${font}"`;
      const page = String(index.source).replace("  </head>", `    <link rel="preload" ${attributes}>\n  </head>`);
      const documents = JSON.parse(readFileSync("persisted.json", "utf8")) as Record<string, string>;
      const id = Object.keys(documents).find((id) => documents[id]?.startsWith("query feedQuery"));
      if (!id) throw new Error("there is no feedQuery in persisted.json");
      const link = `<link rel="preload" as="fetch" crossorigin href="${queryURL(id, {}).replaceAll("&", "&amp;")}">`;
      index.source = page.replace("<head>", `<head>\n    ${link}`);
      this.emitFile({ type: "asset", fileName: "app.html", source: page });
    },
  };
}
