// The drills on a small scale: each can be played from a built clone, and every promise it checks holds. The full size is `npm run drill`.
import { beforeAll, expect, it } from "vitest";
import { build, runBuilt } from "./built.ts";

const DRILL_TIMEOUT_MS = 300_000;

beforeAll(build, DRILL_TIMEOUT_MS);

async function drill(args: readonly string[]): Promise<unknown> {
  const { code, stdout, stderr } = await runBuilt("drill/main.js", args);
  expect(stdout, stderr).not.toBe("");
  const report: { readonly broken: readonly string[] } = JSON.parse(stdout);
  // How long an idle worker takes to end is a figure of an idle machine; beside other tests it is only printed.
  const broken = report.broken.filter((line) => !line.startsWith("an idle worker took"));
  expect({ broken, red: code !== 0 && broken.length > 0 }, stdout).toEqual({ broken: [], red: false });
  return report;
}

it(
  "restarts workers one after the other while runs stream in: each ends with 0, nothing is lost or done twice",
  async () => {
    expect(await drill(["restarts", "--runs", "8", "--restarts", "3"])).toMatchObject({
      charged_once: 8,
      in_dead_letter_queue: 0,
      exits: { 0: 3 },
    });
  },
  DRILL_TIMEOUT_MS,
);

it.each(["restart", "cut", "full"])(
  "goes on after PostgreSQL was gone (%s): no worker dies, every run ends charged once",
  async (kind) => {
    expect(await drill(["outage", "--kind", kind, "--runs", "10", "--seconds", "4"])).toMatchObject({
      charged_once: 10,
      workers_alive: 2,
      statuses: { finished: 10 },
    });
  },
  DRILL_TIMEOUT_MS,
);
