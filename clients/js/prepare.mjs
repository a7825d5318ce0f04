// Builds the package with its own development dependencies: when npm installs it as a folder, by the script prepare, and
// when npm packs it, by prepack, which leaves prepare out of the tarball: npm would warn of it when it installs that.
import { execSync } from "node:child_process";
import { copyFileSync, existsSync } from "node:fs";

const stdio = ["inherit", 2, "inherit"]; // npm pack prints the name of the file
if (!existsSync("node_modules")) execSync("npm ci --ignore-scripts --no-audit --no-fund", { stdio });
execSync("npx --no-install tsc", { stdio });
copyFileSync("../../LICENSE", "LICENSE");
