import react from "@vitejs/plugin-react";
import relay from "vite-plugin-relay";
import { defineConfig } from "vitest/config";
import { preload } from "./tools/preload.ts";
import { relayCompiler } from "./tools/relay.ts";
import { site } from "./tools/site.ts";

const gateway = process.env.BYLINE_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [relayCompiler(), relay, react(), preload(), site()],
  server: {
    host: "127.0.0.1",
    proxy: { "/graphql": { target: gateway, ws: true }, "/avatars": gateway, "/files": gateway, "/uploads": gateway },
  },
  build: {
    assetsInlineLimit: 0,
    cssCodeSplit: false, // pages need all styles
    modulePreload: { polyfill: false },
    // The first load is one file: smaller compressed than a file for each set of modules that pages share.
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: "initial", tags: ["$initial"] }] } } },
  },
  test: { include: ["src/**/*.test.ts"] },
});
