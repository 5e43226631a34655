import { defineConfig } from "vitest/config";

// Tests run from source: the private condition maps every @reprise package to its src.
const shared = {
  resolve: { conditions: ["@reprise/source"] },
  ssr: { resolve: { conditions: ["@reprise/source", "module", "node", "development|production"] } },
};
const places = ["packages/*/test", "infra/dev/test", "infra/test", "examples/test"];

export default defineConfig({
  test: {
    // The published checkpoint validation suite calls beforeAll and expect as globals; our own tests import them.
    projects: [
      {
        ...shared,
        test: {
          name: "unit",
          globals: true,
          include: places.map((place) => `${place}/**/*.test.ts`),
          exclude: ["**/*.real.test.ts", "**/node_modules/**"],
          testTimeout: 20_000,
        },
      },
      {
        ...shared,
        test: {
          name: "real",
          globals: true,
          include: places.map((place) => `${place}/**/*.real.test.ts`),
          globalSetup: ["infra/dev/test/global-setup.ts"],
          testTimeout: 120_000,
          hookTimeout: 120_000,
          maxWorkers: 2,
        },
      },
    ],
  },
});
