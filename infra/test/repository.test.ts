// The repository against its own rules: the direction of imports, the product's name in one place, the house style.

import { expect, it } from "vitest";
import {
  type Allowance,
  directionComplaints,
  environmentComplaints,
  isTestPath,
  type Manifest,
  PLACES,
  packageOf,
  productComplaints,
  styleComplaints,
  tracingComplaints,
  undeclaredComplaints,
  wordComplaints,
} from "./repository-rules.ts";
import { readSource } from "./repository-source.ts";
import { readJson, readText, sourceFiles, textFiles } from "./repository-tree.ts";

const sources = sourceFiles().map((path) => readSource(path, readText(path)));

/** Reviewed: each says why a literal may name the product outside product.ts. One that is no longer needed fails below. */
const ALLOWANCES: readonly Allowance[] = [
  {
    path: /^examples\/src\//,
    text: /\breprise\.[a-z_]+/,
    reason: "an example queries our tables with the SQL a user would type; a rename edits it with the documents",
  },
  {
    path: /^examples\/src\//,
    text: /\bREPRISE_[A-Z_]+/,
    reason: "an example sets the variables a user would export",
  },
  {
    path: /^infra\/setup\/ensure\.mjs$/,
    text: /\.?reprise(-lock|-npm-)?/,
    reason: "runs before anything is installed or built, so it can import nothing of ours",
  },
];

it("finds sources in every package, and tests", () => {
  for (const { folder } of Object.values(PLACES)) {
    expect(sources.filter(({ path }) => path.startsWith(`${folder}/src/`)).length, folder).toBeGreaterThan(5);
    expect(sources.filter(({ path }) => path.startsWith(`${folder}/test/`)).length, folder).toBeGreaterThan(2);
  }
});

it("imports in one direction only: tracing, tools, worker, examples, with the dev stack beside", () => {
  expect(sources.flatMap(directionComplaints)).toEqual([]);
});

it("keeps tracing's core on OpenTelemetry alone, LangGraph in its own folder", () => {
  expect(sources.flatMap(tracingComplaints)).toEqual([]);
});

it.each(Object.values(PLACES).map(({ folder }) => folder))("%s declares what it imports", (folder) => {
  // Our own manifests; a wrong shape would show as an undeclared import.
  const manifest = readJson(`${folder}/package.json`) as Manifest;
  const own = sources.filter(({ path }) => path.startsWith(`${folder}/src/`));
  expect(own.flatMap((facts) => undeclaredComplaints(facts, manifest))).toEqual([]);
});

it.each(["packages/tracing", "packages/tools", "packages/worker"])(
  "%s depends on nothing it does not import",
  (folder) => {
    const manifest = readJson(`${folder}/package.json`) as Manifest;
    const own = sources.filter(({ path }) => path.startsWith(`${folder}/src/`));
    const imported = new Set(own.flatMap(({ imports }) => imports.map(({ what }) => packageOf(what))));
    const idle = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies }).filter(
      // Types of an imported package are asked for by its name.
      (name) => !imported.has(name) && !imported.has(name.replace("@types/", "")),
    );
    expect(idle).toEqual([]);
  },
);

it("says the product's name in product.ts and nowhere else", () => {
  const used = new Set<Allowance>();
  expect(sources.flatMap((facts) => productComplaints(facts, ALLOWANCES, used))).toEqual([]);
  expect(ALLOWANCES.filter((allowance) => !used.has(allowance))).toEqual([]);
});

it("reads the environment in the worker's config, in files named env.ts and in the set-up only", () => {
  expect(sources.flatMap(environmentComplaints)).toEqual([]);
});

it("keeps the house style in every source file", () => {
  expect(sources.flatMap(styleComplaints)).toEqual([]);
});

it("promises nothing that cannot be kept and holds no notes to oneself", () => {
  expect(textFiles().flatMap((path) => wordComplaints(path, readText(path)))).toEqual([]);
});

it("keeps the rules in biome.json that it relies on at error", () => {
  // Biome has checked the shape of its own file before it lints anything.
  const biome = readJson("biome.json") as {
    readonly linter: { readonly rules: Readonly<Record<string, Readonly<Record<string, unknown>>>> };
    readonly overrides: readonly {
      readonly includes: readonly string[];
      readonly linter: { readonly rules: Readonly<Record<string, Readonly<Record<string, unknown>>>> };
    }[];
  };
  expect(biome.linter.rules).toMatchObject({
    nursery: { noFloatingPromises: "error", noMisusedPromises: "error" },
    performance: { noReExportAll: "error" },
    style: { noDefaultExport: "error", noNonNullAssertion: "error", noProcessEnv: "error", noEnum: "error" },
    suspicious: {
      noExplicitAny: "error",
      noFocusedTests: "error",
      noImportCycles: "error",
      noSkippedTests: "error",
    },
  });
  const loosened = biome.overrides.flatMap(({ includes, linter }) =>
    Object.values(linter.rules).flatMap((rules) => Object.keys(rules).map((rule) => ({ rule, includes }))),
  );
  for (const { rule, includes } of loosened) {
    expect(["noProcessEnv", "noDefaultExport"]).toContain(rule);
    if (rule === "noDefaultExport") expect(includes).toEqual(["vitest.config.ts"]);
  }
});

it("counts tests as tests by their folder", () => {
  expect(isTestPath("packages/tools/test/key.test.ts")).toBe(true);
  expect(isTestPath("packages/tools/src/key.ts")).toBe(false);
});
