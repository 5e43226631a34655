// The rules every source file of this repository keeps, as pure functions: facts in, complaints out.

import { posix } from "node:path";
import { PRODUCT } from "@reprise/tracing";
import type { Construct, SourceFacts } from "./repository-source.ts";

/** `path:line: what is wrong and what to do`, fit for a terminal that opens files. */
export type Complaint = string;

type PackageName = "tracing" | "tools" | "worker" | "examples" | "dev-stack";

interface Place {
  readonly folder: string;
  /** Packages of ours that its source may import: the direction. */
  readonly below: readonly PackageName[];
}

/** tracing <- tools <- worker <- examples; the development stack stands beside and knows tracing only. */
export const PLACES: Readonly<Record<PackageName, Place>> = {
  tracing: { folder: "packages/tracing", below: [] },
  tools: { folder: "packages/tools", below: ["tracing"] },
  worker: { folder: "packages/worker", below: ["tracing", "tools"] },
  examples: { folder: "examples", below: ["tracing", "tools", "worker", "dev-stack"] },
  "dev-stack": { folder: "infra/dev", below: ["tracing"] },
};

/** Tests reach further: every package's tests may start the development stack, and infra/test tests everything. */
export function directionComplaints(facts: SourceFacts): readonly Complaint[] {
  const own = placeOf(facts.path);
  if (own === undefined) return [];
  const isTest = isTestPath(facts.path);
  const allowed = new Set<string>([...PLACES[own].below, ...(isTest ? [own, "dev-stack"] : [])]);
  return facts.imports.flatMap(({ what, line }) => {
    const at = `${facts.path}:${line}:`;
    const ours = ourPackage(what);
    if (ours !== undefined && !allowed.has(ours)) return [`${at} ${own} must not import ${what}`];
    const leaves = what.startsWith(".") && !isTest && !isInside(facts.path, what, own);
    return leaves ? [`${at} ${what} leaves the package; import what the other package exports`] : [];
  });
}

/** The core of tracing works in any program, so it takes nothing but OpenTelemetry. */
export function tracingComplaints(facts: SourceFacts): readonly Complaint[] {
  if (!facts.path.startsWith("packages/tracing/src/")) return [];
  const isLangGraph = facts.path.startsWith("packages/tracing/src/langgraph/");
  const allowed = [".", "node:", "@opentelemetry/", ...(isLangGraph ? ["@langchain/"] : [])];
  return facts.imports.flatMap(({ what, line }) => {
    if (allowed.some((start) => what.startsWith(start))) {
      const reachesUp = !isLangGraph && what.includes("langgraph/");
      return reachesUp ? [`${facts.path}:${line}: the core must not import ${what}`] : [];
    }
    return [`${facts.path}:${line}: ${what} is neither OpenTelemetry nor Node's own`];
  });
}

export interface Manifest {
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly peerDependencies?: Readonly<Record<string, string>>;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

/** What a package's source imports stands in its own package.json: hoisting hides a missing line until somebody installs it alone. */
export function undeclaredComplaints(facts: SourceFacts, manifest: Manifest): readonly Complaint[] {
  const declared = new Set(
    [manifest.dependencies, manifest.peerDependencies, manifest.optionalDependencies].flatMap((part) =>
      Object.keys(part ?? {}),
    ),
  );
  return facts.imports
    .filter(({ what }) => !what.startsWith(".") && !what.startsWith("node:") && !declared.has(packageOf(what)))
    .map(({ what, line }) => `${facts.path}:${line}: ${packageOf(what)} is imported but not in package.json`);
}

export interface Allowance {
  readonly path: RegExp;
  /** What may stand there; the rest of the literal is judged without it. */
  readonly text: RegExp;
  readonly reason: string;
}

const PRODUCT_FILE = "packages/tracing/src/product.ts";

/** The product's name in a literal, wherever an allowance does not cover it. `used` collects the allowances that were needed. */
export function productComplaints(
  facts: SourceFacts,
  allowances: readonly Allowance[],
  used: Set<Allowance> = new Set(),
): readonly Complaint[] {
  if (facts.path === PRODUCT_FILE || isTestPath(facts.path)) return [];
  const stray = new RegExp(PRODUCT.name, "i");
  return facts.literals.flatMap(({ what, line }) => {
    if (!stray.test(what)) return [];
    const rest = allowances
      .filter((allowance) => allowance.path.test(facts.path) && allowance.text.test(what))
      .reduce((left, allowance) => {
        used.add(allowance);
        return left.replaceAll(new RegExp(allowance.text, "g"), "");
      }, what);
    return stray.test(rest) ? [`${facts.path}:${line}: say PRODUCT instead of "${excerpt(what)}"`] : [];
  });
}

export function environmentComplaints(facts: SourceFacts): readonly Complaint[] {
  const mayRead =
    facts.path === "packages/worker/src/config.ts" ||
    posix.basename(facts.path) === "env.ts" ||
    facts.path.startsWith("infra/setup/") ||
    isTestPath(facts.path);
  return mayRead ? [] : constructComplaints(facts, ["environment read"]);
}

const NEVER: readonly Construct[] = [
  "any",
  "non-null assertion",
  "default export",
  "export *",
  "focused or skipped test",
];

export function styleComplaints(facts: SourceFacts): readonly Complaint[] {
  return [...constructComplaints(facts, NEVER), ...firstLineComplaints(facts)];
}

function constructComplaints(facts: SourceFacts, banned: readonly Construct[]): readonly Complaint[] {
  return facts.constructs
    .filter(({ what }) => banned.includes(what))
    .map(({ what, line }) => `${facts.path}:${line}: ${what}`);
}

function firstLineComplaints({ path, text }: SourceFacts): readonly Complaint[] {
  const [line = ""] = text.split("\n").filter((each) => !each.startsWith("#!"));
  const saysJob = /^\/\/ \S+( \S+){2,}/.test(line) && !/^\/\/ (biome|@ts|eslint|prettier)/.test(line);
  return saysJob ? [] : [`${path}:1: the first line is a comment that says the file's job`];
}

/** Words that promise what cannot be kept, and notes to oneself; in any text file, also over a line's end. */
export function wordComplaints(path: string, text: string): readonly Complaint[] {
  const promise = new RegExp(["exactly", "once"].join("[\\s*/#>-]+"), "gi");
  const note = new RegExp(`\\b(${["TO", "FIX"].map((start, index) => start + ["DO", "ME"][index]).join("|")})\\b`, "g");
  return [promise, note].flatMap((pattern) =>
    [...text.matchAll(pattern)].map(
      (match) => `${path}:${text.slice(0, match.index).split("\n").length}: "${match[0]}"`,
    ),
  );
}

export function isTestPath(path: string): boolean {
  return path.includes("/test/");
}

function placeOf(path: string): PackageName | undefined {
  return (Object.keys(PLACES) as PackageName[]).find((name) => path.startsWith(`${PLACES[name].folder}/`));
}

function ourPackage(specifier: string): string | undefined {
  return specifier.startsWith(`${PRODUCT.scope}/`) ? specifier.split("/")[1] : undefined;
}

function isInside(path: string, specifier: string, own: PackageName): boolean {
  return posix.join(posix.dirname(path), specifier).startsWith(`${PLACES[own].folder}/`);
}

export function packageOf(specifier: string): string {
  return specifier
    .split("/")
    .slice(0, specifier.startsWith("@") ? 2 : 1)
    .join("/");
}

function excerpt(text: string): string {
  return text.trim().slice(0, 60);
}
