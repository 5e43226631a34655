// The kill harness can be green and can be red: a few kills of the product, and the same kills of a product with one protection removed.
import { beforeAll, expect, it } from "vitest";
import { build, type Ended, runBuilt } from "./built.ts";

const HARNESS_TIMEOUT_MS = 300_000;
/**
 * A seed fixes when to kill, not how fast the machine is then: eight kills may all miss the window they are for, once in a while.
 * Another seed is then played. No promise is given a second chance, only the aim.
 */
const SEEDS = ["1", "2", "3"];

beforeAll(build, HARNESS_TIMEOUT_MS);

const kill = (seed: string, args: readonly string[]): Promise<Ended> =>
  runBuilt("kill/main.js", ["--runs", "8", "--lanes", "2", "--seed", seed, ...args]);

it(
  "ends every killed run finished, charged once, with no message left",
  async () => {
    for (const seed of SEEDS) {
      const { code, stdout, stderr } = await kill(seed, ["--json"]);
      expect(stdout, stderr).not.toBe("");
      expect(JSON.parse(stdout)).toMatchObject({
        runs: 8,
        finished: 8,
        charged_once: 8,
        doubled: 0,
        uncharged: 0,
        left_in_queue: 0,
        late_checkpoints: 0,
        failures: [],
      });
      if (code === 0) return;
    }
    expect.fail(`the kills of seeds ${SEEDS.join(", ")} all came too late to matter`);
  },
  HARNESS_TIMEOUT_MS,
);

it(
  "goes red when the key is generated at call time: customers were charged twice",
  async () => {
    for (const seed of SEEDS) {
      const { code, stdout, stderr } = await kill(seed, ["--mutate", "key_generated"]);
      if (code === 0) continue;
      expect({ code, stdout, stderr }).toMatchObject({
        code: 1,
        stdout: expect.stringMatching(/^BROKEN: (.*; )?[1-9]\d* charged twice/m),
      });
      return;
    }
    expect.fail(`a key generated at call time was not noticed under seeds ${SEEDS.join(", ")}`);
  },
  HARNESS_TIMEOUT_MS,
);
