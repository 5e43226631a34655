// The command line of the benchmarks: which to run and how to print. Pure: argv in, a plan or a complaint out.

import { parseArgs } from "node:util";

export type Plan =
  | {
      readonly kind: "run";
      readonly names: readonly string[];
      readonly json: boolean;
      readonly once: boolean;
      readonly inProcess: boolean;
    }
  | { readonly kind: "list"; readonly json: boolean }
  /** Nothing runs; exit code 2. */
  | { readonly kind: "refused"; readonly message: string };

const USAGE = "usage: npm run bench -- [--json] [--once] [--list] [name...]";

/** `known`: the names of all benchmarks, in the order they run when none is named. */
export function planOf(argv: readonly string[], known: readonly string[]): Plan {
  let parsed: ReturnType<typeof parse>;
  try {
    parsed = parse(argv);
  } catch (error) {
    return { kind: "refused", message: `${error instanceof Error ? error.message : String(error)}\n${USAGE}` };
  }
  const { json, once, list, "in-process": inProcess } = parsed.values;
  if (list) return { kind: "list", json };
  const unknown = parsed.positionals.find((name) => !known.includes(name));
  if (unknown !== undefined) return { kind: "refused", message: unknownMessage(unknown, known) };
  const names = parsed.positionals.length === 0 ? known : [...new Set(parsed.positionals)];
  return { kind: "run", names, json, once, inProcess };
}

function parse(argv: readonly string[]) {
  return parseArgs({
    args: [...argv],
    allowPositionals: true,
    options: {
      json: { type: "boolean", default: false },
      once: { type: "boolean", default: false },
      list: { type: "boolean", default: false },
      // How a run measures in a process of its own; of no use by hand.
      "in-process": { type: "boolean", default: false },
    },
  });
}

function unknownMessage(name: string, known: readonly string[]): string {
  const near = nearest(name, known);
  const hint = near === undefined ? "" : ` The nearest one is "${near}".`;
  return `There is no benchmark "${name}".${hint} --list shows all.`;
}

/** The known name with the fewest changed letters; a name that contains the wanted one comes before all others. */
export function nearest(wanted: string, known: readonly string[]): string | undefined {
  const cost = (name: string): number => (name.includes(wanted) ? 0 : distance(wanted, name));
  return [...known].sort((left, right) => cost(left) - cost(right))[0];
}

/** Levenshtein's: inserted, deleted and replaced letters. */
function distance(from: string, to: string): number {
  let above = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (let row = 1; row <= from.length; row += 1) {
    const line = [row];
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (above[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1);
      line.push(Math.min(replaced, (above[column] ?? 0) + 1, (line[column - 1] ?? 0) + 1));
    }
    above = line;
  }
  return above[to.length] ?? 0;
}
