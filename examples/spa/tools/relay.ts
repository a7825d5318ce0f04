import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import type { Plugin } from "vite";

const compiler = createRequire(import.meta.url).resolve("relay-compiler/cli.js");

/**
 * Compiles the GraphQL documents again when a source file changes. relay-compiler 21 leaves the import of the provider
 * out of the parameters of a preloadable query that has a provided variable: this adds it. It leaves out the
 * hashes, by which Relay warns of artifacts that are out of date: these are compiled with each change.
 */
export function relayCompiler(): Plugin {
  return {
    name: "relay-compiler",
    configureServer({ watcher, config: { root, logger } }) {
      watcher.on("change", (file) => {
        if (!/\.tsx?$/.test(file) || file.includes("__generated__")) return;
        const args = [compiler, "--output", "quiet-with-errors"];
        execFile(process.execPath, args, { cwd: root }, (error, stdout, stderr) => {
          if (error) logger.error(stdout + stderr);
        });
      });
    },
    transform: {
      filter: { id: /__generated__.*\.ts$/ },
      handler: (code, id) =>
        id.endsWith("$parameters.ts")
          ? `import signedIn_provider from "../session/signedIn.relayprovider";\n${code}`
          : code.replace(/^node\.hash = .*/m, ""),
    },
  };
}
