// How receiving goes: what was asked and answered, what failed and how often in a row. Read by health checks and metrics.
import type { Message } from "@aws-sdk/client-sqs";
import { classifyReceive, RECEIVE_FAILURES, type ReceiveFailure, receiveBackoffMs } from "./intake-failure.ts";

/** Times are the intake's monotonic clock, milliseconds. Counters count since the start. */
export interface PollState {
  readonly receives: number;
  readonly messages: number;
  /** The last receive that SQS answered, with messages or without; undefined before the first. */
  readonly answeredAt: number | undefined;
  /** When the receive that is open now was sent; undefined while the loop waits for a slot, the gate or a backoff. */
  readonly openSince: number | undefined;
  /** Undefined while the last receive was answered. */
  readonly failing: PollFailing | undefined;
  readonly failures: Readonly<Record<ReceiveFailure, number>>;
}

export interface PollFailing {
  /** The kind of the latest failure. */
  readonly failure: ReceiveFailure;
  /** Failed receives since the last answered one. */
  readonly consecutive: number;
  /** The latest of them that the watchdog cut, in a row: whether connections hang one after the other (Q13). */
  readonly stuckInRow: number;
  /** When the first of them failed. */
  readonly since: number;
}

export class PollHealth {
  readonly #now: () => number;
  readonly #failures = new Map<ReceiveFailure, number>();
  #receives = 0;
  #messages = 0;
  #answeredAt: number | undefined;
  #openSince: number | undefined;
  #failing: PollFailing | undefined;
  #countMissed = false;

  constructor(now: () => number) {
    this.#now = now;
  }

  sent(): void {
    this.#receives += 1;
    this.#openSince = this.#now();
  }

  /** An answer without messages is an answer: it ends an outage. @returns true once, for the first message without a receive count */
  answered(messages: readonly Message[]): boolean {
    this.#answeredAt = this.#now();
    this.#openSince = undefined;
    this.#failing = undefined;
    this.#messages += messages.length;
    if (this.#countMissed || messages.every((message) => message.Attributes?.ApproximateReceiveCount !== undefined))
      return false;
    this.#countMissed = true;
    return true;
  }

  /** @returns what it was, and the wait before the next receive */
  failed(error: unknown, random: number): { readonly failure: ReceiveFailure; readonly retryInMs: number } {
    const failure = classifyReceive(error);
    const consecutive = (this.#failing?.consecutive ?? 0) + 1;
    const stuckInRow = failure === "stuck" ? (this.#failing?.stuckInRow ?? 0) + 1 : 0;
    this.#failing = { failure, consecutive, stuckInRow, since: this.#failing?.since ?? this.#now() };
    this.#openSince = undefined;
    this.#failures.set(failure, (this.#failures.get(failure) ?? 0) + 1);
    return { failure, retryInMs: receiveBackoffMs(failure, consecutive, random) };
  }

  state(): PollState {
    // Every kind has its number, also one that never failed: a metric that is not there alarms nobody.
    const failures = Object.fromEntries(
      RECEIVE_FAILURES.map((failure) => [failure, this.#failures.get(failure) ?? 0]),
    ) as Record<ReceiveFailure, number>;
    return {
      receives: this.#receives,
      messages: this.#messages,
      answeredAt: this.#answeredAt,
      openSince: this.#openSince,
      failing: this.#failing,
      failures,
    };
  }
}
