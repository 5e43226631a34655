// The lease of one delivery: SQS visibility first, then the thread's row, beat by beat; its loss aborts the run's signal.
import { WorkerError } from "./errors.ts";
import { beatDelayMs, leaseLengthMs, visibilityBeforeWallMs, WALL_HANDOVER } from "./lease-time.ts";
import { Stop, type StopSignal } from "./signals.ts";

/** Monotonic time and timers, injected by tests. */
export interface Clock {
  now(): number;
  /** Calls back once, later; the returned function cancels it. Never keeps the process alive. */
  after(ms: number, run: () => void): () => void;
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after: (ms, run) => {
    const timer = setTimeout(run, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

export interface LeaseParts {
  readonly visibilityMs: number;
  readonly clock: Clock;
  readonly random: () => number;
  /** When beats are sent: together with those of other leases (lease-beats.ts), or by the clock alone. */
  readonly beats: Pick<Clock, "after">;
  /** Extends the message's visibility to `visibilityMs` from now. Rejects when SQS refuses or does not answer. */
  readonly extend: (visibilityMs: number) => Promise<void>;
  /** Renews the thread's lease and the delivery's last_beat for `leaseMs`. False when the fence is no longer ours. */
  readonly renew: (leaseMs: number) => Promise<boolean>;
  /** One call, when the lease is lost; `reason` is for people. */
  readonly onLost: (error: WorkerError) => void;
  /** One call, when SQS's twelve hours are nearly over (Q16, C08): `wall.asked` fires with it. */
  readonly onWallNear: () => void;
  /** A beat that failed while time is left: it is tried again at once, until the deadline. */
  readonly onBeatFailed: (error: unknown) => void;
}

/** In two steps, as a drain: first the run is asked to stop at its next checkpoint, then what is left is aborted. */
export interface HandOver {
  readonly asked: StopSignal;
  readonly forced: StopSignal;
}

/** Failed beats are repeated this often, with the deadline counting on (case C11). */
const RETRY_SHARE = 0.1;

const NO_BEAT = Promise.resolve();

/**
 * Owns a delivery's time. `deadline` counts from the send of the last accepted beat: past it the message may be
 * anybody's, whatever this process believes, so it forbids effects and checkpoints at once (`isLive`).
 */
export class Lease {
  readonly #parts: LeaseParts;
  readonly #lost = new Stop();
  readonly #wall = { asked: new Stop(), forced: new Stop() };
  readonly #receivedAt: number;
  #deadline: number;
  #cancelWall: () => void = () => {};
  #cancelBeat: () => void = () => {};
  #cancelDeadline: () => void = () => {};
  /** Beats are strictly one after the other, and none overlaps the delete, the backoff or the release. */
  #beating: Promise<void> = NO_BEAT;
  #stopped = false;

  /** @param sinceMs clock time of the receive that made the message ours */
  constructor(parts: LeaseParts, sinceMs: number) {
    this.#parts = parts;
    this.#receivedAt = sinceMs;
    this.#deadline = sinceMs + leaseLengthMs(parts.visibilityMs, 0);
  }

  /** Aborted with a WorkerError LEASE_LOST when the lease is lost. */
  get signal(): StopSignal {
    return this.#lost;
  }

  /** Fires before the twelve hours that SQS lets a message be held: the message is given back then, and its next receive starts anew. */
  get wall(): HandOver {
    return this.#wall;
  }

  /** Monotonic time until which the message is ours. */
  get deadline(): number {
    return this.#deadline;
  }

  /** Checked before each effect: true also right after a blocked event loop, since it compares clocks, not timers. */
  isLive(): boolean {
    return !this.#lost.aborted && this.#parts.clock.now() < this.#deadline;
  }

  /** What is left for the thread's lease to be taken with. */
  remainingMs(): number {
    return Math.max(0, this.#deadline - this.#parts.clock.now());
  }

  start(): void {
    this.#armDeadline();
    this.#armWall();
    const { visibilityMs, random, clock, beats } = this.#parts;
    // From the receive: a slow admission has used up a part of the visibility already.
    const gone = clock.now() - this.#receivedAt;
    this.#armBeat(beats, Math.max(0, beatDelayMs(visibilityMs, random()) - gone));
  }

  /** Stops beating and waits for a beat in flight, so that what follows on the same handle is never overtaken. */
  stop(): Promise<void> {
    this.#stopped = true;
    this.#cancelTimers();
    return this.#beating;
  }

  #cancelTimers(): void {
    this.#cancelBeat();
    this.#cancelDeadline();
    this.#cancelWall();
  }

  #armBeat(timers: Pick<Clock, "after">, delayMs: number): void {
    if (this.#stopped || this.#lost.aborted) return;
    this.#cancelBeat = timers.after(delayMs, () => {
      this.#beating = this.#beat();
    });
  }

  #armWall(): void {
    const { clock, onWallNear } = this.#parts;
    const untilMs = (sinceReceiveMs: number): number => Math.max(0, this.#receivedAt + sinceReceiveMs - clock.now());
    this.#cancelWall = clock.after(untilMs(WALL_HANDOVER.askMs), () => {
      this.#wall.asked.abort();
      onWallNear();
      this.#cancelWall = clock.after(untilMs(WALL_HANDOVER.forceMs), () => this.#wall.forced.abort());
    });
  }

  #armDeadline(): void {
    this.#cancelDeadline();
    if (this.#stopped || this.#lost.aborted) return;
    // Node cuts fractions of a millisecond off a timer, so it may fire before its time: then it is armed again.
    this.#cancelDeadline = this.#parts.clock.after(Math.ceil(this.remainingMs()), () => {
      if (this.isLive()) this.#armDeadline();
      else this.#lose("no beat was accepted in time");
    });
  }

  async #beat(): Promise<void> {
    const { clock, visibilityMs, random } = this.#parts;
    if (!this.isLive()) {
      this.#lose("no beat was accepted in time");
      return;
    }
    const sentAt = clock.now();
    const askedMs = visibilityBeforeWallMs(visibilityMs, sentAt - this.#receivedAt);
    // Nothing is left to ask for: the deadline stands, and the hand-over has been asked for long ago.
    if (askedMs === 0) return;
    try {
      await this.#parts.extend(askedMs);
      if (this.#lost.aborted) return;
      const leaseMs = leaseLengthMs(askedMs, clock.now() - sentAt);
      if (!(await this.#parts.renew(leaseMs))) {
        this.#lose("another worker holds the thread");
        return;
      }
      this.#deadline = sentAt + leaseLengthMs(askedMs, 0);
      this.#armDeadline();
      this.#armBeat(this.#parts.beats, beatDelayMs(visibilityMs, random()));
    } catch (error) {
      this.#afterFailure(error);
    }
  }

  #afterFailure(error: unknown): void {
    if (isHandleGone(error)) {
      this.#lose("SQS no longer knows the receipt handle as in flight");
      return;
    }
    this.#parts.onBeatFailed(error);
    // By the clock: a round could draw it nearer, and a refused beat must not be repeated in a hurry.
    const delayMs = this.#parts.visibilityMs * RETRY_SHARE * (0.5 + this.#parts.random() / 2);
    this.#armBeat(this.#parts.clock, delayMs);
  }

  #lose(reason: string): void {
    if (this.#lost.aborted || this.#stopped) return;
    const error = new WorkerError(
      "LEASE_LOST",
      `${reason}; the run stops here and another delivery goes on from its last checkpoint`,
    );
    this.#cancelTimers();
    this.#lost.abort(error);
    this.#parts.onLost(error);
  }
}

/** SQS answers that a later beat cannot mend (ChangeMessageVisibility, SQS API reference). */
function isHandleGone(error: unknown): boolean {
  const name = error instanceof Error ? error.name : "";
  return name === "MessageNotInflight" || name === "ReceiptHandleIsInvalid" || name === "InvalidParameterValue";
}
