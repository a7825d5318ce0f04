// Serves the build and passes /graphql, /avatars, /files and /uploads on to the gateway, all on one origin, as a proxy
// or CDN does in production, with headers for caches and a Content-Security-Policy.
//
//   node tools/serve.mjs [port]      DIST is another folder than dist, BYLINE_URL another gateway than 127.0.0.1:8080
import { readdirSync, readFileSync, statSync } from "node:fs";
import { createServer, request } from "node:http";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";

const dist = process.env.DIST ?? fileURLToPath(new URL("../dist", import.meta.url));
const gateway = new URL(process.env.BYLINE_URL ?? "http://127.0.0.1:8080");
const provider = process.env.VITE_OIDC_AUTHORITY ?? ""; // the page fetches tokens from its origin

const types = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".woff2": "font/woff2",
};

const headers = {
  "Content-Security-Policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    "font-src 'self'",
    `connect-src 'self' ${provider && new URL(provider).origin}`.trim(),
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
};

const files = new Map();
for (const name of readdirSync(dist, { recursive: true })) {
  const path = join(dist, name);
  if (!statSync(path).isFile()) continue;
  const body = readFileSync(path);
  const compressible = extname(name) !== ".woff2";
  files.set(`/${name}`, {
    type: types[extname(name)] ?? "application/octet-stream",
    // the names under assets have a hash of the content; a new build has new names, so the page must be current
    cache: name.startsWith("assets") ? "public, max-age=31536000, immutable" : "no-cache",
    bodies: { identity: body, ...(compressible && { br: brotliCompressSync(body), gzip: gzipSync(body) }) },
  });
}

function serve(req, res) {
  const { pathname } = new URL(req.url, "http://localhost");
  const page = pathname.startsWith("/assets/") ? undefined : files.get("/app.html"); // a tag may be node.js
  const file = files.get(pathname === "/" ? "/index.html" : pathname) ?? page;
  if (!file) return res.writeHead(404, headers).end();
  const accepted = req.headers["accept-encoding"] ?? "";
  const encoding = ["br", "gzip"].find((name) => accepted.includes(name) && file.bodies[name]) ?? "identity";
  res.writeHead(200, {
    ...headers,
    "Content-Type": file.type,
    "Cache-Control": file.cache,
    Vary: "Accept-Encoding",
    ...(encoding !== "identity" && { "Content-Encoding": encoding }),
  });
  res.end(file.bodies[encoding]);
}

const forward = ({ method, url, headers }) =>
  request({ host: gateway.hostname, port: gateway.port, method, path: url, headers });

const server = createServer((req, res) => {
  if (!/^\/(graphql\b|(avatars|files|uploads)\/)/.test(req.url)) return serve(req, res);
  const passed = forward(req);
  passed.on("response", (response) => {
    res.writeHead(response.statusCode, response.rawHeaders);
    response.pipe(res);
  });
  passed.on("error", () => (res.headersSent ? res.destroy() : res.writeHead(502).end()));
  res.on("close", () => passed.destroy());
  req.pipe(passed);
});

server.on("upgrade", (req, socket, head) => {
  const passed = forward(req);
  passed.on("upgrade", (response, upstream, first) => {
    const lines = response.rawHeaders.map((text, i) => text + (i % 2 ? "\r\n" : ": ")).join("");
    socket.write(`HTTP/1.1 101 Switching Protocols\r\n${lines}\r\n`);
    socket.write(first);
    upstream.write(head);
    socket.pipe(upstream).pipe(socket);
    upstream.on("error", () => socket.destroy());
    socket.on("error", () => upstream.destroy());
  });
  passed.on("response", () => socket.destroy());
  passed.on("error", () => socket.destroy());
  passed.end();
});

server.listen(Number(process.argv[2] ?? 4173), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}`);
});
