// The repository's own files on disk, as the rules read them: no dependency, no build output, nothing of git's.

import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";

export const ROOT = dirname(dirname(import.meta.dirname));

const NOT_OURS = new Set(["node_modules", "dist", ".git", ".reprise", "coverage", "package-lock.json", "LICENSE"]);
const TEXT = /\.(ts|mts|mjs|js|json|md|ya?ml|sql|sh|tf|toml)$|^(run|Dockerfile)$/;

/** Paths from the root, with forward slashes, sorted. Walked, not asked of git: a copy without its history is checked too. */
export function textFiles(): readonly string[] {
  const walk = (folder: string): readonly string[] =>
    readdirSync(folder, { withFileTypes: true })
      .filter((entry) => !NOT_OURS.has(entry.name))
      .flatMap((entry) => {
        const path = join(folder, entry.name);
        if (entry.isDirectory()) return walk(path);
        return entry.isFile() && TEXT.test(entry.name) ? [relative(ROOT, path).split(sep).join("/")] : [];
      });
  return walk(ROOT).toSorted();
}

/** Source and tests of every package, and the plain JavaScript that sets them up. */
export function sourceFiles(): readonly string[] {
  return textFiles().filter((path) => /^(packages|examples|infra)\/.*\.(ts|mjs)$/.test(path));
}

export function readText(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

export function readJson(path: string): unknown {
  return JSON.parse(readText(path));
}
