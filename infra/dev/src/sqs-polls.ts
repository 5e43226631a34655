// Long polls: receives that wait for a message, served in order of arrival, and only while their client is there.

import { SqsError } from "./sqs-errors.ts";

export interface SqsClock {
  /** Epoch milliseconds. */
  now(): number;
  /** Calls `run` once after `delayMs`; the returned function cancels it. */
  after(delayMs: number, run: () => void): () => void;
}

/** The client's connection as far as a waiting poll cares. */
export interface SqsConnection {
  isClosed(): boolean;
  onClose(run: () => void): void;
}

export interface SqsPollRequest<Taken> {
  readonly waitMs: number;
  readonly connection: SqsConnection;
  /** Takes what is visible now; empty when there is nothing. */
  readonly take: () => readonly Taken[];
  /** When the queue's next hidden message appears, if any. */
  readonly nextVisibleAt: () => number | undefined;
  /** Asked once when the client has gone: true is the `swallow_aborted_poll` fault. */
  readonly isSwallowed: () => boolean;
}

/** `ghost`: the client has gone, and the poll takes the next message all the same. */
type PollState = "waiting" | "ghost" | "done";

interface Poll<Taken> {
  state: PollState;
  readonly request: SqsPollRequest<Taken>;
  readonly finish: (taken: readonly Taken[]) => void;
}

export const POLLS_MAX = 1_000;
/** Waiting polls look again this often while something is hidden, so that a clock moved by hand is noticed. */
const RECHECK_MS = 250;

export class SqsPolls<Taken> {
  readonly #clock: SqsClock;
  readonly #polls = new Map<string, Poll<Taken>[]>();
  readonly #timers = new Map<string, () => void>();
  readonly #waking = new Set<string>();
  #count = 0;

  constructor(clock: SqsClock) {
    this.#clock = clock;
  }

  /** How many polls wait, ghosts included. */
  get count(): number {
    return this.#count;
  }

  /** Resolves with what the poll took; empty after `waitMs`, when the queue is deleted, or when the client has gone. */
  wait(queue: string, request: SqsPollRequest<Taken>): Promise<readonly Taken[]> {
    if (this.#count >= POLLS_MAX) {
      const message = `The embedded endpoint has ${POLLS_MAX} long polls waiting, its bound.`;
      return Promise.reject(new SqsError("OverLimit", message, { bound: "polls" }));
    }
    return new Promise((resolve) => {
      const cancelTimeout = this.#clock.after(request.waitMs, () => this.#end(queue, poll, []));
      const poll: Poll<Taken> = {
        state: "waiting",
        request,
        finish: (taken) => {
          cancelTimeout();
          resolve(taken);
        },
      };
      this.#polls.set(queue, [...(this.#polls.get(queue) ?? []), poll]);
      this.#count += 1;
      request.connection.onClose(() => this.#clientGone(queue, poll));
      this.#arm(queue);
    });
  }

  /** Serves the queue's polls from the front for as long as there is something to take. */
  wake(queue: string): void {
    // Taking commits, and a commit wakes: the loop below already serves whatever that nested call would.
    if (this.#waking.has(queue) || !this.#polls.has(queue)) return;
    this.#waking.add(queue);
    try {
      for (let poll = this.#front(queue); poll !== undefined; poll = this.#front(queue)) {
        const taken = poll.request.take();
        if (taken.length === 0) break;
        this.#end(queue, poll, taken);
      }
    } finally {
      this.#waking.delete(queue);
    }
    this.#arm(queue);
  }

  /** Ends every poll of a deleted queue. */
  endAll(queue: string): void {
    for (const poll of [...(this.#polls.get(queue) ?? [])]) this.#end(queue, poll, []);
  }

  close(): void {
    for (const queue of [...this.#polls.keys()]) this.endAll(queue);
  }

  /**
   * The first poll that may still be served. A poll whose socket is closed is passed over even before its close event
   * came: a killed worker must not swallow a message and make its next, first delivery look like the second.
   * Proved by sqs-idle-kill.real.test.ts.
   */
  #front(queue: string): Poll<Taken> | undefined {
    for (const poll of [...(this.#polls.get(queue) ?? [])]) {
      if (poll.state === "waiting" && poll.request.connection.isClosed()) this.#clientGone(queue, poll);
      if (poll.state !== "done") return poll;
    }
    return undefined;
  }

  #clientGone(queue: string, poll: Poll<Taken>): void {
    if (poll.state !== "waiting") return;
    if (poll.request.isSwallowed()) poll.state = "ghost";
    else this.#end(queue, poll, []);
  }

  #end(queue: string, poll: Poll<Taken>, taken: readonly Taken[]): void {
    if (poll.state === "done") return;
    poll.state = "done";
    this.#count -= 1;
    const rest = (this.#polls.get(queue) ?? []).filter((other) => other !== poll);
    if (rest.length > 0) this.#polls.set(queue, rest);
    else this.#polls.delete(queue);
    if (rest.length === 0) this.#disarm(queue);
    poll.finish(taken);
  }

  /** One timer a queue with polls: the next expiry of a visibility or a delay. */
  #arm(queue: string): void {
    this.#disarm(queue);
    const next = this.#polls.get(queue)?.[0]?.request.nextVisibleAt();
    if (next === undefined) return;
    const delayMs = Math.min(RECHECK_MS, Math.max(1, next - this.#clock.now()));
    this.#timers.set(
      queue,
      this.#clock.after(delayMs, () => this.wake(queue)),
    );
  }

  #disarm(queue: string): void {
    this.#timers.get(queue)?.();
    this.#timers.delete(queue);
  }
}
