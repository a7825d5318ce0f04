// Builds the package when npm packs it, or installs it as a folder, with its own development dependencies.
import { execSync } from "node:child_process";
import { copyFileSync, existsSync } from "node:fs";

if (!existsSync("node_modules")) execSync("npm ci --ignore-scripts --no-audit --no-fund", { stdio: "inherit" });
execSync("npx --no-install tsc", { stdio: "inherit" });
copyFileSync("../../LICENSE", "LICENSE");
