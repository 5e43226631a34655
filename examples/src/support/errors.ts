// The errors the example support throws: one class, one literal code each.

export type SupportErrorCode =
  | "SCRIPT_TURN_MISSING"
  | "SCRIPT_TURN_EMPTY"
  | "MODEL_NAME_INVALID"
  | "MODEL_PACKAGE_MISSING"
  | "MODEL_PACKAGE_UNUSABLE"
  | "PAYMENTS_START_FAILED"
  | "PAYMENTS_CONTROL_FAILED"
  | "PAYMENTS_HELD_TIMEOUT"
  | "WORKER_START_FAILED"
  | "EXAMPLE_FAILED";

/** What the example support throws; `code` is stable, `message` says what happened and what to do next. */
export class SupportError extends Error {
  readonly code: SupportErrorCode;

  constructor(code: SupportErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "SupportError";
    this.code = code;
  }
}
