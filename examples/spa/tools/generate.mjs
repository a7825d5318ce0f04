// Compiles the GraphQL documents of src against the gateway's schema: their types and artifacts to src/__generated__,
// and the manifest of their texts to persisted.json, which the gateway takes as --trusted-documents.
import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const compiler = createRequire(import.meta.url).resolve("relay-compiler/cli.js");

copyFileSync(join(root, "../../schema.graphqls"), join(root, "schema.graphql")); // the compiler wants this extension
rmSync(join(root, "src/__generated__"), { recursive: true, force: true });
mkdirSync(join(root, "src/__generated__"));
writeFileSync(join(root, "persisted.json"), "{}"); // without the documents of earlier builds
execFileSync(process.execPath, [compiler, "--output", "quiet-with-errors"], { cwd: root, stdio: "inherit" });
