// Bundles a TypeScript entry into one file that plain Node 20 runs: for tests that must kill a real process.

import { mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { build } from "vite";

/**
 * @param entry absolute path of a .ts file; packages from npm stay external, our own sources are bundled.
 * @returns the bundle's path, below this package's ignored `dist`, so that its imports resolve as in the source.
 */
export async function bundleForNode(entry: string): Promise<string> {
  const dist = join(import.meta.dirname, "..", "dist");
  mkdirSync(dist, { recursive: true });
  const outDir = mkdtempSync(join(dist, "test-"));
  await build({
    configFile: false,
    logLevel: "error",
    ssr: { resolve: { conditions: ["@reprise/source", "module", "node"] }, noExternal: [/^@reprise\//] },
    build: {
      ssr: entry,
      outDir,
      emptyOutDir: false,
      target: "node20",
      rollupOptions: { output: { entryFileNames: "child.mjs" } },
    },
  });
  return join(outDir, "child.mjs");
}
