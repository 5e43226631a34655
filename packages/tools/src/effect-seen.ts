// How often keys were claimed again without changing anything: counted in memory and written together a moment later, because a
// commit for each cost a replay three to twelve times its read.
import { diag } from "@opentelemetry/api";
import { messageOf } from "./errors.ts";

export interface SeenCountsOptions {
  /** Adds the counts to the keys' rows; both lists have the same length. */
  readonly write: (keys: readonly string[], counts: readonly number[]) => Promise<void>;
  /** Default 200 ms. */
  readonly delayMs?: number;
  /** Keys counted at a time; repeats of further keys are dropped, counted. Default 1,000. */
  readonly keysMax?: number;
}

type Counts = Map<string, number>;

export class SeenCounts {
  readonly #write: SeenCountsOptions["write"];
  readonly #delayMs: number;
  readonly #keysMax: number;
  #counts: Counts = new Map();
  #writing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #dropped = 0;

  constructor(options: SeenCountsOptions) {
    this.#write = options.write;
    this.#delayMs = options.delayMs ?? 200;
    this.#keysMax = options.keysMax ?? 1_000;
  }

  /** Repeats that are in no row and never will be. */
  get dropped(): number {
    return this.#dropped;
  }

  add(key: string): void {
    const before = this.#counts.get(key);
    if (before === undefined && this.#counts.size >= this.#keysMax) {
      this.#dropped += 1;
      return;
    }
    this.#counts.set(key, (before ?? 0) + 1);
    this.#start();
  }

  /** Counted and not on its way to the row. What is on its way may or may not be in the row yet: never too many. */
  pending(key: string): number {
    return this.#counts.get(key) ?? 0;
  }

  /** Resolves when what was counted so far is written or dropped. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    await this.#writing;
    if (this.#counts.size === 0) return this.#writing;
    this.#writing = this.#writeAll();
    return this.#writing;
  }

  // One write at a time. A process may end before the timer: then its last repeats are not counted.
  #start(): void {
    if (this.#timer !== undefined || this.#writing !== undefined) return;
    this.#timer = setTimeout(() => void this.flush(), this.#delayMs);
    this.#timer.unref();
  }

  async #writeAll(): Promise<void> {
    const counts = this.#counts;
    this.#counts = new Map();
    try {
      await this.#write([...counts.keys()], [...counts.values()]);
    } catch (error) {
      for (const count of counts.values()) this.#dropped += count;
      diag.debug(`repeats of effects could not be counted: ${messageOf(error)}`);
    }
    this.#writing = undefined;
    if (this.#counts.size > 0) this.#start();
  }
}
