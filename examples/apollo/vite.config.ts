import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const target = process.env.BYLINE_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [react()],
  server: { host: "127.0.0.1", proxy: { "/graphql": { target, ws: true }, "/avatars": target } },
});
