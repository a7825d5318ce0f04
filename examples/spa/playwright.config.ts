import { defineConfig, type PlaywrightTestConfig } from "@playwright/test";

type Use = PlaywrightTestConfig["use"];

const desktop: Use = { viewport: { width: 1280, height: 900 } };
const phone: Use = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };

// What these test is the same at any width.
const whateverTheWidth =
  /(blocked|development|feed|found|hostile|linked|live|markdown|noscript|oidc|outage|(picture|search)\w*|wide)\.spec/;

// These measure times, so they run alone, after the others.
const loading = /(loading|paint)\.spec\.ts/;

export default defineConfig({
  testDir: "tests",
  workers: 2,
  forbidOnly: true,
  retries: 1, // a busy machine may be too slow for a test; it is then reported as flaky
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: "list",
  use: {
    launchOptions: { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] },
    trace: "off",
  },
  projects: [
    { name: "desktop", use: desktop, testIgnore: loading },
    { name: "phone", use: { ...phone, colorScheme: "dark" }, testIgnore: [loading, whateverTheWidth] },
    { name: "desktop loading", use: desktop, testMatch: loading, dependencies: ["desktop", "phone"] },
    { name: "phone loading", use: phone, testMatch: loading, dependencies: ["desktop loading"] },
  ],
});
