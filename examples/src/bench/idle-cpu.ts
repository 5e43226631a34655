// Waits for an idle machine before a round: what other processes take, a round that is compared must not pay.

import { cpus } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const SAMPLE_MS = 100;
/** Of all cores together. */
const IDLE_SHARE_MIN = 0.7;

/** Resolves at the first sample that finds the machine idle, and after `waitMsMax` in any case: a busy machine is measured all the same. */
export async function waitForIdleCpu(waitMsMax = 2_500): Promise<void> {
  const deadline = performance.now() + waitMsMax;
  let before = cpuTimes();
  while (performance.now() < deadline) {
    await sleep(SAMPLE_MS);
    const now = cpuTimes();
    const idle = (now.idle - before.idle) / Math.max(1, now.all - before.all);
    if (idle >= IDLE_SHARE_MIN) return;
    before = now;
  }
}

function cpuTimes(): { readonly idle: number; readonly all: number } {
  let idle = 0;
  let all = 0;
  for (const { times } of cpus()) {
    idle += times.idle;
    all += times.idle + times.user + times.sys + times.irq + times.nice;
  }
  return { idle, all };
}
