// Copies the schema of the repository; a copy of this folder has its own, from `byline schema > schema.graphqls`.
import { copyFileSync, existsSync } from "node:fs";

const repository = "../../schema.graphqls";
if (existsSync(repository)) copyFileSync(repository, "schema.graphqls");
if (!existsSync("schema.graphqls")) {
  console.error("There is no schema. Write the gateway's to schema.graphqls:\n\n    byline schema > schema.graphqls\n");
  process.exit(1);
}
