import { readFileSync } from "node:fs";
import type { Plugin } from "vite";
import { queryURL } from "../src/network/queryURL.ts";

/**
 * Has the front page's index.html load its query beside the code that sends it. app.html, which serves all other
 * addresses, preloads neither the query nor modules: a page of a post is complete without scripts, and its cover needs
 * the bandwidth first.
 */
export function preload(): Plugin {
  return {
    name: "preload",
    apply: "build",
    enforce: "post",
    generateBundle(_, bundle) {
      const index = bundle["index.html"];
      if (index?.type !== "asset") return;
      const page = String(index.source);
      const documents = JSON.parse(readFileSync("persisted.json", "utf8")) as Record<string, string>;
      const id = Object.keys(documents).find((id) => documents[id]?.startsWith("query FeedPageQuery"));
      if (!id) throw new Error("there is no FeedPageQuery in persisted.json");
      const link = `<link rel="preload" as="fetch" crossorigin href="${queryURL(id, {}).replaceAll("&", "&amp;")}">`;
      index.source = page.replace("<head>", `<head>\n    ${link}`);
      const app = page.replaceAll(/\s*<link rel="modulepreload"[^>]*>/g, "");
      this.emitFile({ type: "asset", fileName: "app.html", source: app });
    },
  };
}
