// What mutate.mjs hands to the test of the lists.

/** One listed mutation: `find` stands once in `file`, and with `replace` in its place the tests that `name` selects go red. */
export interface Mutation {
  readonly ids: readonly string[];
  readonly topic: string;
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly test: string;
  /** A vitest `-t` pattern. */
  readonly name: string;
  /** Runs `tsc -b` first, for tests that start built processes. */
  readonly build?: true;
  readonly why: string;
}

export function readMutations(from?: string): readonly Mutation[];

export function mutated(
  text: string,
  entry: Pick<Mutation, "find" | "replace">,
): { readonly text: string; readonly problem?: undefined } | { readonly problem: string; readonly text?: undefined };
