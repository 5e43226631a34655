import { defineConfig } from "vitest/config";

// Tests run from source: the private condition maps every @reprise package to its src.
const shared = {
  // Without "module": it names builds for bundlers, which Node cannot load from node_modules.
  resolve: { conditions: ["@reprise/source", "node"] },
  ssr: { resolve: { conditions: ["@reprise/source", "node"] } },
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
          // Vitest wants one order for each number of workers; the quick tests come first.
          sequence: { groupOrder: 0 },
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
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
});
