// The errors of the benchmark harness: one class, one literal code each.

export type BenchErrorCode =
  /** No values, or no rounds, to compute from. */
  | "BENCH_NO_VALUES"
  /** What was measured did not do what it is measured for. */
  | "BENCH_WRONG_WORK"
  /** A fresh process that measured gave no figure. */
  | "BENCH_PROCESS_FAILED";

/** What a benchmark throws; `code` is stable, `message` says what happened and what to do next. */
export class BenchError extends Error {
  readonly code: BenchErrorCode;

  constructor(code: BenchErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "BenchError";
    this.code = code;
  }
}

/** A benchmark that measures nothing, or the wrong thing, must fail instead of printing a good figure. */
export function requireWork(holds: boolean, what: string): asserts holds {
  if (holds) return;
  throw new BenchError("BENCH_WRONG_WORK", `The benchmark did not measure what it says: ${what}. Mend the benchmark.`);
}
