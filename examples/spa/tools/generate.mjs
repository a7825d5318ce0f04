// Compiles the GraphQL documents of src against the gateway's schema: their types and artifacts to src/__generated__,
// and the manifest of their texts to persisted.json, which the gateway takes as --trusted-documents.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const compiler = createRequire(import.meta.url).resolve("relay-compiler/cli.js");

// The schema of the repository, or in a copy of this folder, its own.
const schema = ["../../schema.graphqls", "schema.graphqls"].map((name) => join(root, name)).find(existsSync);
if (!schema) {
  console.error("There is no schema. Write the gateway's to schema.graphqls:\n\n    byline schema > schema.graphqls\n");
  process.exit(1);
}
copyFileSync(schema, join(root, "schema.graphql")); // the compiler wants this extension
rmSync(join(root, "src/__generated__"), { recursive: true, force: true });
mkdirSync(join(root, "src/__generated__"));
writeFileSync(join(root, "persisted.json"), "{}"); // without the documents of earlier builds
execFileSync(process.execPath, [compiler, "--output", "quiet-with-errors"], { cwd: root, stdio: "inherit" });
