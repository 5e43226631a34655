// When the outbox is looked at: shortly after a run has ended, now and then, and once more at the end; one look at a time.

import type { SendOutcome } from "./completion-rows.ts";
import { type CompletionParts, sendCompletions } from "./completion-send.ts";
import { errorText } from "./errors.ts";

/** What became of completions, by state, since the process started. `pending` counts failed sends, which are repeated. */
export type CompletionCounts = Readonly<Record<SendOutcome["state"], number>>;

/** Runs that end together are sent together, and a busy worker looks at most this often. */
const GATHER_MS = 25;

export class CompletionOutbox {
  readonly #parts: CompletionParts;
  readonly #counts = { sent: 0, pending: 0, refused: 0, dead: 0 };
  #looking: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #ended = false;

  constructor(parts: CompletionParts) {
    this.#parts = parts;
  }

  counts(): CompletionCounts {
    return { ...this.#counts };
  }

  /** A run may have ended. A worker that may answer nobody does not ask its database after each run. */
  poke(): void {
    if (this.#parts.allowed.size === 0 || this.#timer !== undefined || this.#ended) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      // A look that is going on may have read the outbox before this run ended.
      void (this.#looking ?? Promise.resolve()).then(() => this.look());
    }, GATHER_MS);
    this.#timer.unref();
  }

  /** Sends what is due. Never rejects: what it could not send is due again. */
  look(): Promise<void> {
    this.#looking ??= this.#send().finally(() => {
      this.#looking = undefined;
    });
    return this.#looking;
  }

  /** The last look: nothing is poked after it. */
  async settle(): Promise<void> {
    this.#ended = true;
    clearTimeout(this.#timer);
    await this.#looking;
    if (this.#parts.allowed.size > 0) await this.look();
  }

  async #send(): Promise<void> {
    try {
      await sendCompletions(this.#parts, (state) => {
        this.#counts[state] += 1;
      });
    } catch (error) {
      this.#parts.log.warn({ error: errorText(error) }, "completions could not be sent; the next look tries again");
    }
  }
}
