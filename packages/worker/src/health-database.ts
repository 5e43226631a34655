// Whether PostgreSQL answers: one small query at a time, bounded, and remembered, so that probes cost no connections.
import { errorName } from "./errors.ts";
import type { DatabaseState } from "./health.ts";
import type { Clock } from "./lease.ts";

export interface DatabaseProbeOptions {
  /** Resolves when the database answered. */
  readonly ping: () => Promise<unknown>;
  readonly clock: Clock;
  /** An answer is believed this long. Default 5,000. */
  readonly believedMs?: number;
  /** And waited for this long; a pool without a free connection counts as no answer. Default 2,000. */
  readonly answerMs?: number;
}

interface Answer {
  readonly state: DatabaseState;
  readonly at: number;
}

export class DatabaseProbe {
  readonly #options: Required<DatabaseProbeOptions>;
  #last: Answer | undefined;
  /** Never a second one beside it: pings must not queue up where connections are short. */
  #asking: Promise<DatabaseState> | undefined;

  constructor(options: DatabaseProbeOptions) {
    this.#options = { believedMs: 5_000, answerMs: 2_000, ...options };
  }

  /** Never rejects, and never takes longer than `answerMs`. */
  async check(): Promise<DatabaseState> {
    const { clock, believedMs, answerMs } = this.#options;
    const last = this.#last;
    if (last !== undefined && last.state.state === "reachable" && clock.now() - last.at < believedMs) return last.state;
    this.#asking ??= this.#ask();
    const asking = this.#asking;
    return new Promise((resolve) => {
      const cancel = clock.after(answerMs, () =>
        resolve({ state: "unreachable", reason: `no answer within ${answerMs} ms` }),
      );
      // `#ask` never rejects.
      void asking.then((state) => {
        cancel();
        resolve(state);
      });
    });
  }

  async #ask(): Promise<DatabaseState> {
    const state = await this.#options.ping().then(
      (): DatabaseState => ({ state: "reachable" }),
      (error: unknown): DatabaseState => ({ state: "unreachable", reason: `refused (${errorName(error)})` }),
    );
    this.#last = { state, at: this.#options.clock.now() };
    this.#asking = undefined;
    return state;
  }
}
