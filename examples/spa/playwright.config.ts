import { defineConfig, type PlaywrightTestConfig } from "@playwright/test";

type Use = PlaywrightTestConfig["use"];

const desktop: Use = { viewport: { width: 1280, height: 900 } };
const phone: Use = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true, deviceScaleFactor: 2 };

export default defineConfig({
  testDir: "tests",
  workers: 1,
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
    { name: "desktop", use: desktop },
    { name: "phone", use: { ...phone, colorScheme: "dark" } },
  ],
});
