// Faults on demand: what the endpoint shall do wrong next, how often, to which operation and to which queue.

import { SqsEndpointError } from "./sqs-errors.ts";
import type { SqsOperationName } from "./sqs-operation-names.ts";

/** Where a fault applies and how often it still does. */
export interface SqsFaultScope {
  /** Counts down; at 0 the fault is gone. */
  readonly remaining: number;
  /** A queue's name. Without it every queue is meant: name one when test files share an endpoint. */
  readonly queue?: string;
}

/** `*` stands for every operation. */
export type SqsFaultOperation = SqsOperationName | "*";

/** One fault. Those with an `operation` count its calls; the others count messages or polls, as said. */
export type SqsFault = SqsFaultScope &
  (
    | {
        /** The call is refused as too fast; it has no effect. Default code ThrottlingException. */
        readonly kind: "throttle";
        readonly operation: SqsFaultOperation;
        readonly code?: "ThrottlingException" | "RequestThrottled";
      }
    /** The call takes effect, then the connection is reset: the caller cannot know. */
    | { readonly kind: "drop_reply"; readonly operation: SqsFaultOperation }
    /** The next `remaining` received messages stay visible, so that a second copy is delivered at once. */
    | { readonly kind: "deliver_twice" }
    /** The next `remaining` received messages come without ApproximateReceiveCount. */
    | { readonly kind: "count_missing" }
    /** The next `remaining` aborted long polls wait on unseen and take the next message, as real SQS may do. */
    | { readonly kind: "swallow_aborted_poll" }
    /** The call is refused with this AWS error code; it has no effect. The status defaults to the code's own. */
    | {
        readonly kind: "error";
        readonly operation: SqsFaultOperation;
        readonly code: string;
        readonly httpStatus?: number;
      }
    /** The call is slow: by default it takes effect late; `reply` lets it take effect at once and answers late. */
    | {
        readonly kind: "delay";
        readonly operation: SqsFaultOperation;
        readonly delayMs: number;
        readonly slow?: "effect" | "reply";
      }
  );

export type SqsFaultKind = SqsFault["kind"];

/** How code and tests steer the endpoint. The same three are POST, DELETE and GET on /_faults. */
export interface SqsFaults {
  /** All or none. Throws SqsEndpointError `SQS_FAULT_INVALID` for a fault that could never apply, or one too many. */
  add(...faults: readonly SqsFault[]): void;
  /** All faults, or those that name this queue. */
  clear(queue?: string): void;
  /** In order of arrival; the oldest fault that fits is used first. */
  list(): readonly SqsFault[];
}

export const FAULTS_MAX = 100;

export interface SqsFaultTarget {
  readonly operation: SqsOperationName;
  readonly queue: string | undefined;
}

export class SqsFaultList implements SqsFaults {
  readonly #onRefused: () => void;
  #faults: readonly SqsFault[] = [];

  /** `onRefused` counts what the bound on faults refused. */
  constructor(onRefused: () => void = () => undefined) {
    this.#onRefused = onRefused;
  }

  add(...faults: readonly SqsFault[]): void {
    for (const fault of faults) {
      if (Number.isInteger(fault.remaining) && fault.remaining >= 1) continue;
      throw new SqsEndpointError(
        "SQS_FAULT_INVALID",
        `Fault ${fault.kind} needs remaining >= 1, not ${fault.remaining}.`,
      );
    }
    if (this.#faults.length + faults.length > FAULTS_MAX) {
      this.#onRefused();
      throw new SqsEndpointError(
        "SQS_FAULT_INVALID",
        `The endpoint holds at most ${FAULTS_MAX} faults: clear some first.`,
      );
    }
    // Copies: a caller that adds one object twice means two faults, and each is told apart by identity.
    this.#faults = [...this.#faults, ...faults.map((fault) => ({ ...fault }))];
  }

  clear(queue?: string): void {
    this.#faults = queue === undefined ? [] : this.#faults.filter((fault) => fault.queue !== queue);
  }

  list(): readonly SqsFault[] {
    return this.#faults;
  }

  /** The oldest fault of a kind that fits, used up by one; undefined when none does. */
  use<Kind extends SqsFaultKind>(kind: Kind, target: SqsFaultTarget): Extract<SqsFault, { kind: Kind }> | undefined {
    for (const fault of this.#faults) {
      if (!isKind(fault, kind) || !fits(fault, target)) continue;
      this.#spend(fault, 1);
      return fault;
    }
    return undefined;
  }

  /** How many messages the faults of a kind still cover. Read it, receive, then `spend` what was received. */
  budget(kind: "deliver_twice" | "count_missing", target: SqsFaultTarget): number {
    const fitting = this.#faults.filter((fault) => fault.kind === kind && fits(fault, target));
    return fitting.reduce((sum, fault) => sum + fault.remaining, 0);
  }

  spend(kind: "deliver_twice" | "count_missing", target: SqsFaultTarget, messages: number): void {
    let left = messages;
    for (const fault of this.#faults) {
      if (left === 0) return;
      if (fault.kind !== kind || !fits(fault, target)) continue;
      const spent = Math.min(left, fault.remaining);
      this.#spend(fault, spent);
      left -= spent;
    }
  }

  #spend(used: SqsFault, times: number): void {
    this.#faults = this.#faults.flatMap((fault) => {
      if (fault !== used) return [fault];
      return fault.remaining > times ? [{ ...fault, remaining: fault.remaining - times }] : [];
    });
  }
}

function isKind<Kind extends SqsFaultKind>(fault: SqsFault, kind: Kind): fault is Extract<SqsFault, { kind: Kind }> {
  return fault.kind === kind;
}

function fits(fault: SqsFault, target: SqsFaultTarget): boolean {
  if (fault.queue !== undefined && fault.queue !== target.queue) return false;
  return !("operation" in fault) || fault.operation === "*" || fault.operation === target.operation;
}
