// worker.outage_receives: how many receives ten minutes without credentials make. Simulated: waits are added up, not waited.

import { receiveBackoffMs } from "@reprise/worker";
import { type Benchmark, singleFigure } from "./benchmark.ts";
import { requireWork } from "./errors.ts";
import { quantile, spreadOf } from "./statistics.ts";

const OUTAGE_MS = 600_000;
/** The most that an outage may make, whatever is drawn. */
const RECEIVES_MAX = 60;

export const workerOutage: Benchmark = {
  name: "worker.outage_receives",
  unit: "receives",
  what: "receives of one worker in a simulated ten-minute credential outage, median of 1,000; the worst of them, and the lowest draw each time, must stay at 60 or below",
  async run(options) {
    const outages = Array.from({ length: options.once ? 10 : 1_000 }, () => receivesIn(Math.random));
    const worst = Math.max(
      ...outages,
      receivesIn(() => 0),
    );
    requireWork(worst <= RECEIVES_MAX, `an outage made ${worst} receives, and ${RECEIVES_MAX} are allowed`);
    const value = quantile(outages, 0.5);
    const single = { value, spread: spreadOf(outages), rounds: outages.length, noise: { kind: "quiet" } } as const;
    return singleFigure(this, single, options);
  },
};

/** A refused receive takes no time here, which makes more of them: the SDK's own retries would only slow them. */
function receivesIn(random: () => number): number {
  let receives = 0;
  for (let atMs = 0; atMs < OUTAGE_MS; atMs += receiveBackoffMs("auth", receives, random())) receives += 1;
  return receives;
}
