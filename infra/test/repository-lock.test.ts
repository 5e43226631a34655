// What is installed: exact versions, one copy of each OpenTelemetry package, and a lock file that names no registry.

import { expect, it } from "vitest";
import { readJson, readText, textFiles } from "./repository-tree.ts";

interface Locked {
  readonly version?: string;
  readonly resolved?: string;
  readonly integrity?: string;
  readonly link?: boolean;
}

type Versions = Readonly<Record<string, string>>;

// npm wrote it; what it lacks shows as undefined in the expectations below.
const lock = (readJson("package-lock.json") as { readonly packages: Readonly<Record<string, Locked>> }).packages;
const installed = Object.entries(lock).filter(([path, entry]) => path.includes("node_modules/") && entry.link !== true);
const nameOf = (path: string): string => path.split("node_modules/").at(-1) ?? path;

const manifests = textFiles().filter((path) => path.endsWith("package.json"));

it("holds one version of each OpenTelemetry package", () => {
  const versions = new Map<string, Set<string>>();
  for (const [path, { version }] of installed) {
    if (!nameOf(path).startsWith("@opentelemetry/")) continue;
    versions.set(nameOf(path), (versions.get(nameOf(path)) ?? new Set()).add(version ?? "none"));
  }
  expect(versions.size).toBeGreaterThan(20);
  expect([...versions].filter(([, found]) => found.size > 1).map(([name, found]) => [name, ...found])).toEqual([]);
});

it("finds the manifests of the workspace and its packages", () => {
  expect(manifests).toEqual([
    "examples/package.json",
    "infra/dev/package.json",
    "infra/docker/app-package.json",
    "package.json",
    "packages/tools/package.json",
    "packages/tracing/package.json",
    "packages/worker/package.json",
  ]);
});

it.each(manifests)("%s names exact versions, peers aside", (path) => {
  // Peers are a promise about what others have, so they are ranges; everything else is what we tested.
  const manifest = readJson(path) as Readonly<Record<string, Versions | undefined>>;
  const exact = ["dependencies", "devDependencies", "optionalDependencies", "overrides"].flatMap((part) =>
    Object.entries(manifest[part] ?? {}),
  );
  expect(exact.filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))).toEqual([]);
});

it("names no registry: who installs from a mirror gets the same packages from the mirror", () => {
  const resolved = Object.entries(lock).filter(([, entry]) => entry.resolved !== undefined);
  expect(resolved.filter(([, entry]) => /:\/\//.test(entry.resolved ?? ""))).toEqual([]);
  expect(readText("package-lock.json").match(/"resolved": "\w+:/g)).toBeNull();
});

it("pins the content of every package", () => {
  expect(installed.length).toBeGreaterThan(100);
  expect(installed.filter(([, { integrity }]) => integrity?.startsWith("sha512-") !== true)).toEqual([]);
});

it("agrees with the manifests", () => {
  for (const path of manifests) {
    const folder = path.replace(/\/?package\.json$/, "");
    const manifest = readJson(path) as Readonly<Record<string, unknown>>;
    const entry: Readonly<Record<string, unknown>> = { ...lock[folder] };
    for (const part of ["dependencies", "devDependencies", "peerDependencies", "optionalDependencies"]) {
      expect(entry[part], `${path} ${part}`).toEqual(manifest[part]);
    }
  }
});
