// Every error this package throws, each with a code that the README explains.

export type TracingErrorCode = "TRACING_OPTION_INVALID" | "TRACING_EXPORT_FAILED" | "TRACING_EXPORT_TIMED_OUT";

/** Base of all errors thrown here. `code` is stable; the message says what happened, to what, and what to do next. */
export class TracingError extends Error {
  override readonly name: string = "TracingError";
  readonly code: TracingErrorCode;

  constructor(code: TracingErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.code = code;
  }
}

/** An option that would make a bound meaningless (a queue of zero, a share of 7) is refused when it is given, not when it bites. */
export class OptionInvalidError extends TracingError {
  override readonly name = "OptionInvalidError";

  constructor(option: string, value: unknown, allowed: string) {
    super(
      "TRACING_OPTION_INVALID",
      `Tracing option ${option} is ${String(value)}; allowed: ${allowed}. Change it where the tracing is set up.`,
    );
  }
}

/** Reported by `exportNow` only: spans sent by hand did not arrive. The sampled path never throws; it counts. */
export class ExportFailedError extends TracingError {
  override readonly name = "ExportFailedError";

  constructor(code: "TRACING_EXPORT_FAILED" | "TRACING_EXPORT_TIMED_OUT", spans: number, cause: unknown) {
    const what = code === "TRACING_EXPORT_FAILED" ? "was refused or did not arrive" : "got no answer in time";
    super(code, `The export of ${spans} spans ${what}. Check the collector's address and health; repeating is safe.`, {
      cause,
    });
  }
}
