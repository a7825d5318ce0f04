import { readFileSync } from "node:fs";
import type { Plugin } from "vite";

/** The paths of src/app/routes.ts, what each shows to everybody, and the query whose response the page brings along. */
const routes = [
  { path: "/", page: "front", query: "FeedPageQuery" },
  { path: "/posts/:slug", page: "post", query: "PostPageQuery" },
  { path: "/authors/:username", page: "author", query: "AuthorPageQuery" },
  { path: "/tags/:name", page: "tag", query: "TagPageQuery" },
  { path: "/search", page: "search", query: "SearchPageQuery" },
  ...[
    "/home", "/posts/:slug/edit", "/authors/:username/followers", "/authors/:username/following", "/write", "/drafts",
    "/drafts/:id", "/liked", "/bookmarks", "/settings", "/signin", "/signin/callback", "/welcome",
  ].map((path) => ({ path })),
];

/** The variable that relay-compiler adds for signedIn.relayprovider.ts. */
const provided = /\$(__relay_internal__pv__\w*signedIn\w*)/;

/** Writes site.json, by which the gateway serves the build with --site. */
export function site(): Plugin {
  return {
    name: "site",
    apply: "build",
    generateBundle() {
      const documents = JSON.parse(readFileSync("persisted.json", "utf8")) as Record<string, string>;
      const described = routes.map((route) => {
        if (!("query" in route)) return route;
        const { path, page, query } = route;
        const id = Object.keys(documents).find((id) => new RegExp(`^query ${query}\\b`).test(documents[id] ?? ""));
        if (!id) throw new Error(`there is no ${query} in persisted.json`);
        const name = provided.exec(documents[id] ?? "")?.[1];
        const variables = name ? { [name]: false } : {};
        return { path, page, document: id, variables };
      });
      const source = JSON.stringify({ shell: "app.html", routes: described, documents }, undefined, 2);
      this.emitFile({ type: "asset", fileName: "site.json", source });
    },
  };
}
