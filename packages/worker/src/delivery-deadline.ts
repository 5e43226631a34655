// The deadline of one delivery: how long its run may work before it goes on in another delivery, from its checkpoint.
import { WorkerError } from "./errors.ts";
import type { Clock } from "./lease.ts";
import { Stop, type StopSignal } from "./signals.ts";

export interface Deadline {
  /** Aborted with a WorkerError RUN_DEADLINE. */
  readonly signal: StopSignal;
  /** Counts anew from now: what was waited before the work is no work. */
  restart(): void;
  cancel(): void;
}

export function startDeadline(clock: Clock, seconds: number): Deadline {
  const signal = new Stop();
  const arm = (): (() => void) =>
    clock.after(seconds * 1000, () =>
      signal.abort(
        new WorkerError(
          "RUN_DEADLINE",
          `the delivery worked longer than ${seconds} s; the run goes on from its checkpoint`,
        ),
      ),
    );
  let cancel = arm();
  return {
    signal,
    restart: () => {
      cancel();
      cancel = arm();
    },
    cancel: () => cancel(),
  };
}
