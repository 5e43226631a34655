// Reads one source file into the facts that the repository's rules judge: imports, literals, and constructs the house style has no place for.

import { parseAst } from "vite";

export type Construct =
  | "any"
  | "non-null assertion"
  | "default export"
  | "export *"
  | "environment read"
  | "focused or skipped test";

export interface Found<T> {
  readonly what: T;
  readonly line: number;
}

export interface SourceFacts {
  /** From the repository's root, with forward slashes. */
  readonly path: string;
  readonly text: string;
  /** Every specifier: import, export from, import(), types, import.meta.resolve. */
  readonly imports: readonly Found<string>[];
  /** Strings, the fixed pieces of templates and NAMES_LIKE_THIS, specifiers left out. Comments are no literals. */
  readonly literals: readonly Found<string>[];
  readonly constructs: readonly Found<Construct>[];
}

type Node = Readonly<Record<string, unknown>> & { readonly type: string; readonly start: number };

/** A real parser, not patterns over text: `any` in a comment or `export *` in a string are nobody's fault. */
export function readSource(path: string, text: string): SourceFacts {
  const program: unknown = parseAst(text, { lang: path.endsWith(".ts") ? "ts" : "js" });
  const nodes = [...nodesOf(program)];
  const lineOf = (node: Node): number => text.slice(0, node.start).split("\n").length;
  const specifiers = new Set(nodes.flatMap((node) => specifierOf(node) ?? []));
  return {
    path,
    text,
    imports: [...specifiers].map((node) => ({ what: String(node["value"]), line: lineOf(node) })),
    literals: nodes.flatMap((node) => {
      const literal = specifiers.has(node) ? undefined : literalOf(node);
      return literal === undefined ? [] : [{ what: literal, line: lineOf(node) }];
    }),
    constructs: nodes.flatMap((node) => {
      const construct = constructOf(node);
      return construct === undefined ? [] : [{ what: construct, line: lineOf(node) }];
    }),
  };
}

function* nodesOf(value: unknown): Generator<Node> {
  if (Array.isArray(value)) for (const each of value) yield* nodesOf(each);
  else if (isNode(value)) {
    yield value;
    for (const each of Object.values(value)) yield* nodesOf(each);
  } else if (typeof value === "object" && value !== null) {
    for (const each of Object.values(value)) yield* nodesOf(each);
  }
}

function isNode(value: unknown): value is Node {
  return (
    typeof value === "object" &&
    value !== null &&
    "type" in value &&
    typeof value.type === "string" &&
    "start" in value &&
    typeof value.start === "number"
  );
}

function specifierOf(node: Node): Node | undefined {
  switch (node.type) {
    case "ImportDeclaration":
    case "ExportNamedDeclaration":
    case "ExportAllDeclaration":
    case "ImportExpression":
    case "TSImportType":
      return stringNode(node["source"]);
    case "CallExpression":
      return isResolve(node["callee"]) ? stringNode(first(node["arguments"])) : undefined;
    default:
      return undefined;
  }
}

/** `import.meta.resolve(...)`, `require(...)` and `require.resolve(...)`. */
function isResolve(callee: unknown): boolean {
  if (isIdentifier(callee, "require")) return true;
  if (!isNode(callee) || callee.type !== "MemberExpression" || !isIdentifier(callee["property"], "resolve"))
    return false;
  const object = callee["object"];
  return isIdentifier(object, "require") || (isNode(object) && object.type === "MetaProperty");
}

function literalOf(node: Node): string | undefined {
  if (node.type === "Literal" && typeof node["value"] === "string") return node["value"];
  // The key of `{ SOME_VARIABLE: "1" }` is spelled like an identifier and is a string all the same.
  if (node.type === "Identifier" && /^[A-Z0-9]+_[A-Z0-9_]+$/.test(String(node["name"]))) return String(node["name"]);
  if (node.type !== "TemplateElement") return undefined;
  const value = node["value"];
  return typeof value === "object" && value !== null && "raw" in value ? String(value.raw) : undefined;
}

function constructOf(node: Node): Construct | undefined {
  switch (node.type) {
    case "TSAnyKeyword":
      return "any";
    case "TSNonNullExpression":
      return "non-null assertion";
    case "ExportDefaultDeclaration":
      return "default export";
    case "ExportAllDeclaration":
      return "export *";
    case "MemberExpression":
      if (isIdentifier(node["object"], "process") && isIdentifier(node["property"], "env")) return "environment read";
      return isUnrunTest(node) ? "focused or skipped test" : undefined;
    case "VariableDeclarator":
      return isIdentifier(node["init"], "process") ? "environment read" : undefined;
    case "ImportDeclaration":
      return takesEnvironment(node) ? "environment read" : undefined;
    default:
      return undefined;
  }
}

const UNRUN = ["only", "skip", "todo", "skipIf", "runIf", "fails"];

/** `it.only`, `describe.concurrent.skip`, `ctx.skip()`: whatever hangs on a name of the test runner. */
function isUnrunTest(node: Node): boolean {
  if (!UNRUN.some((name) => isIdentifier(node["property"], name))) return false;
  let object = node["object"];
  while (isNode(object) && object.type === "MemberExpression") object = object["object"];
  return ["it", "test", "describe", "suite", "bench"].some((name) => isIdentifier(object, name));
}

function takesEnvironment(node: Node): boolean {
  const source = stringNode(node["source"])?.["value"];
  if (source !== "node:process" && source !== "process") return false;
  const specifiers = Array.isArray(node["specifiers"]) ? node["specifiers"] : [];
  return specifiers.some(
    (each) => isNode(each) && (each.type !== "ImportSpecifier" || isIdentifier(each["imported"], "env")),
  );
}

function isIdentifier(value: unknown, name: string): boolean {
  return isNode(value) && value.type === "Identifier" && value["name"] === name;
}

function stringNode(value: unknown): Node | undefined {
  return isNode(value) && value.type === "Literal" && typeof value["value"] === "string" ? value : undefined;
}

function first(value: unknown): unknown {
  return Array.isArray(value) ? value[0] : undefined;
}
