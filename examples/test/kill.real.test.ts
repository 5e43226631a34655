// The kill harness can be green and can be red: a few kills of the product, and the same kills of a product with one protection removed.
import { beforeAll, expect, it } from "vitest";
import { build, type Ended, runBuilt } from "./built.ts";

const HARNESS_TIMEOUT_MS = 300_000;
/**
 * A seed fixes when to kill, not how fast the machine is then: a few kills may all miss the window they are for, once in a while.
 * Another seed is then played. No promise is given a second chance, only the aim.
 */
const SEEDS = ["1", "2", "3"];

/** What the harness says when its kills missed; everything else it says is a broken promise. */
const AIM = /^only \d+ kills /;

beforeAll(build, HARNESS_TIMEOUT_MS);

const kill = (seed: string, runs: number, args: readonly string[]): Promise<Ended> =>
  runBuilt("kill/main.js", ["--runs", String(runs), "--lanes", "2", "--seed", seed, "--json", ...args]);

it(
  "D05: ends every killed run finished, charged once, with no message left",
  async () => {
    for (const seed of SEEDS) {
      const { code, stdout, stderr } = await kill(seed, 8, []);
      expect(stdout, stderr).not.toBe("");
      const report: { readonly broken: readonly string[] } = JSON.parse(stdout);
      expect(report).toMatchObject({ finished: 8, charged_once: 8, doubled: 0, uncharged: 0, left_in_queue: 0 });
      expect(report.broken.filter((line) => !AIM.test(line))).toEqual([]);
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
      const { code, stdout, stderr } = await kill(seed, 6, ["--mutate", "key_generated"]);
      expect(stdout, stderr).not.toBe("");
      const { doubled, broken }: { readonly doubled: number; readonly broken: readonly string[] } = JSON.parse(stdout);
      if (doubled === 0) continue;
      expect({ code, broken }).toEqual({ code: 1, broken: expect.arrayContaining([`${doubled} charged twice`]) });
      return;
    }
    expect.fail(`a key generated at call time was not noticed under seeds ${SEEDS.join(", ")}`);
  },
  HARNESS_TIMEOUT_MS,
);
