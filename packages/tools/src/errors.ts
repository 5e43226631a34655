// Every error this package throws: one base class, a literal code, and a message that says what to do next.

/** The codes of this package. Each has a row in the README, and `test/errors.test.ts` checks both ways. */
export const ERROR_CODES = [
  "INVALID_KEY_PART",
  "FENCE_LOST",
  "RUN_ABORTED",
  "MIGRATION_CHANGED",
  "NO_CALL_ID",
  "WEAK_CALL_ID",
  "CALL_NOT_CHECKPOINTED",
  "CHECKPOINT_NOT_DURABLE",
  "NO_EFFECT_SCOPE",
  "NO_THREAD_ID",
  "INVALID_TOOL",
  "LEDGER_FULL",
  "EFFECT_FAILED",
  "EFFECT_UNKNOWN",
  "KIT_FAILED",
] as const;

export type ToolsErrorCode = (typeof ERROR_CODES)[number];

export interface ToolsErrorOptions {
  readonly cause?: unknown;
  readonly threadId?: string;
}

/** Base of every error of `@reprise/tools`. Match on `code`, not on the message. */
export class ToolsError extends Error {
  override readonly name: string = "ToolsError";
  readonly code: ToolsErrorCode;
  readonly threadId: string | undefined;

  constructor(code: ToolsErrorCode, message: string, options: ToolsErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.threadId = options.threadId;
  }
}

/** A part of a key was missing or empty. Nothing was derived, so nothing can collide (G06). */
export class InvalidKeyPart extends ToolsError {
  override readonly name = "InvalidKeyPart";

  constructor(part: "threadId" | "ref" | "key" | "label" | "forkId", value: unknown) {
    const shown = value === "" ? "an empty string" : `${value === null ? "null" : typeof value}`;
    super(
      "INVALID_KEY_PART",
      `The key part ${part} is ${shown}. Give a non-empty string: a key made of a missing value is shared by strangers.`,
    );
  }
}

/** Another holder owns the thread now. The run must stop: nothing of it is stored any more. */
export class FenceLost extends ToolsError {
  override readonly name = "FenceLost";

  constructor(threadId: string, what: string, options: { readonly cause?: unknown } = {}) {
    super(
      "FENCE_LOST",
      `The fence of thread ${threadId} was lost: ${what}. Stop this run; the newer holder of the thread goes on.`,
      {
        ...options,
        threadId,
      },
    );
  }
}

/** The run's own signal fired. This stops the graph and is never told to the model as a failure of the tool. */
export class RunAborted extends ToolsError {
  override readonly name = "RunAborted";

  constructor(threadId: string, tool: string, options: { readonly cause?: unknown } = {}) {
    super(
      "RUN_ABORTED",
      `The run on thread ${threadId} was stopped while tool ${tool} was dispatched. Its effect, if any, is settled by the next delivery.`,
      {
        ...options,
        threadId,
      },
    );
  }
}

/** Why a call was refused before its body ran; the message carries the fix. */
export type RefusalCode =
  | "NO_CALL_ID"
  | "WEAK_CALL_ID"
  | "CALL_NOT_CHECKPOINTED"
  | "CHECKPOINT_NOT_DURABLE"
  | "NO_EFFECT_SCOPE"
  | "NO_THREAD_ID";

/** A call that cannot have a stable key was refused; its body did not run. */
export class CallRefused extends ToolsError {
  override readonly name = "CallRefused";
  declare readonly code: RefusalCode;

  constructor(code: RefusalCode, message: string, options: ToolsErrorOptions = {}) {
    super(code, message, options);
  }
}

/** Thrown by a tool that has proof that nothing happened outside: recorded as failed, and told so. */
export class EffectFailed extends ToolsError {
  override readonly name = "EffectFailed";

  constructor(detail: string, options: { readonly cause?: unknown } = {}) {
    super("EFFECT_FAILED", detail, options);
  }
}

/** Thrown by a tool that cannot tell whether its effect happened: recorded as unknown, never repeated by itself. */
export class EffectUnknown extends ToolsError {
  override readonly name = "EffectUnknown";

  constructor(detail: string, options: { readonly cause?: unknown } = {}) {
    super("EFFECT_UNKNOWN", detail, options);
  }
}

/** The text of whatever was thrown, for details and causes. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
