// Fails if the JavaScript of the front page is over its budget, compressed by gzip: the entry, what it imports, and the
// socket that it loads afterwards.
import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const budget = 150_000; // bytes
const dist = new URL("../dist/", import.meta.url);
const entry = readFileSync(new URL("index.html", dist), "utf8");
const names = [...entry.matchAll(/(?:src|href)="\/(assets\/[^"]+\.js)"/g)].map(([, name]) => name);
const socket = readdirSync(new URL("assets", dist)).find((name) => /^socket-.*\.js$/.test(name));
names.push(`assets/${socket}`);
const bytes = names.reduce((sum, name) => sum + gzipSync(readFileSync(new URL(name, dist))).length, 0);
console.log(`${names.length} files, ${bytes} of ${budget} bytes of JavaScript`);
if (names.length < 2 || bytes > budget) process.exit(1);
