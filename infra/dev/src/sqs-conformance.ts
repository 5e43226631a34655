// What SQS does, as 49 behaviours that any test runner can run against any endpoint: ours, another emulator, or AWS.

import { batchAndLimitBehaviours } from "./sqs-conformance-batch.ts";
import { fifoBehaviours } from "./sqs-conformance-fifo.ts";
import { queueBehaviours } from "./sqs-conformance-queues.ts";
import { receiveBehaviours } from "./sqs-conformance-receive.ts";
import type { SqsBehaviour, SqsTarget } from "./sqs-conformance-scene.ts";
import { settleBehaviours } from "./sqs-conformance-settle.ts";

export type { SqsBehaviour, SqsTarget } from "./sqs-conformance-scene.ts";

/**
 * Each behaviour makes its own queues and removes them, so all may run at once. AWS itself was not reached when this
 * was written: the rules come from its documentation, and an endpoint of AWS is the judge of them.
 */
export const sqsConformance: readonly SqsBehaviour[] = [
  ...queueBehaviours,
  ...receiveBehaviours,
  ...settleBehaviours,
  ...batchAndLimitBehaviours,
  ...fifoBehaviours,
];

export type SqsConformanceResult = { readonly kept: true } | { readonly kept: false; readonly error: Error };

export interface SqsConformanceOptions {
  /** How many run at a time; default 12. They mostly wait. */
  readonly concurrency?: number;
  /** A behaviour that hangs counts as broken; default 30 s. */
  readonly timeoutMs?: number;
}

/** Starts them all and returns at once: one promise per behaviour name, none of which rejects. */
export function runSqsConformance(
  target: SqsTarget,
  options: SqsConformanceOptions = {},
): ReadonlyMap<string, Promise<SqsConformanceResult>> {
  const { concurrency = 12, timeoutMs = 30_000 } = options;
  // Lane n runs behaviours n, n + concurrency, ... one after the other.
  const lanes: Promise<unknown>[] = Array.from({ length: concurrency }, () => Promise.resolve());
  const results = new Map<string, Promise<SqsConformanceResult>>();
  for (const [index, behaviour] of sqsConformance.entries()) {
    const lane = index % concurrency;
    const result = (lanes[lane] ?? Promise.resolve()).then(() => runOne(behaviour, { target, timeoutMs }));
    lanes[lane] = result;
    results.set(behaviour.name, result);
  }
  return results;
}

interface RunOptions {
  readonly target: SqsTarget;
  readonly timeoutMs: number;
}

async function runOne(behaviour: SqsBehaviour, { target, timeoutMs }: RunOptions): Promise<SqsConformanceResult> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not end within ${timeoutMs} ms`)), timeoutMs);
  });
  try {
    await Promise.race([behaviour.run(target), timeout]);
    return { kept: true };
  } catch (cause) {
    const reason = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
    return { kept: false, error: new Error(`${behaviour.name} - ${reason}`, { cause }) };
  } finally {
    clearTimeout(timer);
  }
}
