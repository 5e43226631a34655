// Proves the database probe: bounded, remembered, one question at a time, and never an error of its own.
import { expect, test, vi } from "vitest";
import { DatabaseProbe } from "../src/health-database.ts";
import { FakeClock } from "./fake-clock.ts";

const reachable = { state: "reachable" };

test("an answer is believed for five seconds, whatever the probes ask meanwhile", async () => {
  const clock = new FakeClock();
  const ping = vi.fn(async () => {});
  const probe = new DatabaseProbe({ ping, clock });
  for (let second = 0; second < 5; second += 1) {
    expect(await probe.check()).toEqual(reachable);
    clock.time += 1_000;
  }
  expect(ping).toHaveBeenCalledTimes(1);
  expect(await probe.check()).toEqual(reachable);
  expect(ping).toHaveBeenCalledTimes(2);
});

test("probes that come together share one question", async () => {
  const ping = vi.fn(async () => {});
  const probe = new DatabaseProbe({ ping, clock: new FakeClock() });
  await Promise.all([probe.check(), probe.check(), probe.check()]);
  expect(ping).toHaveBeenCalledTimes(1);
});

test("a database that does not answer is unreachable after two seconds, and is asked once, not once a probe", async () => {
  const clock = new FakeClock();
  const answers: (() => void)[] = [];
  const ping = vi.fn(() => new Promise<void>((resolve) => answers.push(resolve)));
  const probe = new DatabaseProbe({ ping, clock });
  for (let probes = 0; probes < 3; probes += 1) {
    const asked = probe.check();
    await clock.advance(2_000);
    expect(await asked).toEqual({ state: "unreachable", reason: "no answer within 2000 ms" });
  }
  expect(ping).toHaveBeenCalledTimes(1);
  for (const answer of answers) answer();
  await clock.advance(0);
  expect(await probe.check()).toEqual(reachable);
  expect(clock.pending).toBe(0);
});

test("a refusal is told by its code, not its text, and asked again at once", async () => {
  const refused = Object.assign(new Error("password of app wrong at 10.0.0.7"), { code: "28P01" });
  const ping = vi.fn<() => Promise<void>>().mockRejectedValueOnce(refused).mockResolvedValue();
  const probe = new DatabaseProbe({ ping, clock: new FakeClock() });
  expect(await probe.check()).toEqual({ state: "unreachable", reason: "refused (28P01)" });
  expect(await probe.check()).toEqual(reachable);
});
