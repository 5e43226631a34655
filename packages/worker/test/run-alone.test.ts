// Proves how the wait for the worker ends: driven alone, deferred, handed back or lost; none of them counts a fault.
import { expect, test, vi } from "vitest";
import type { RunContext } from "../src/delivery-run.ts";
import { IntakeGate } from "../src/intake-gate.ts";
import { workAlone } from "../src/run-alone.ts";

interface Stand {
  readonly context: RunContext;
  readonly gate: IntakeGate;
  readonly log: string[];
  readonly deadline: AbortController;
  readonly drain: AbortController;
  readonly lease: AbortController;
}

function stand(inside: number): Stand {
  const gate = new IntakeGate();
  for (let entered = 0; entered < inside; entered += 1) gate.enter();
  const [deadline, drain, lease] = [new AbortController(), new AbortController(), new AbortController()];
  const log: string[] = [];
  const context = {
    request: { threadId: "t" },
    fence: "7",
    delivery: {
      deliveryId: "d",
      root: { setAttribute: (name: string, value: unknown) => void log.push(`${name}=${String(value)}`) },
    },
    parts: {
      gate,
      drain: { asked: drain.signal },
      random: () => 0.5,
      pool: { query: async (sql: string) => void log.push(sql.includes("alone = true") ? "noted alone" : sql) },
    },
    lease: { signal: lease.signal },
    deadline: { restart: () => void log.push("deadline restarted") },
    signal: AbortSignal.any([deadline.signal, lease.signal]),
    // What the wait touches of a context; the rest belongs to the steps it leads to.
  } as unknown as RunContext;
  return { context, gate, log, deadline, drain, lease };
}

const go = vi.fn<Parameters<typeof workAlone>[1]>();

function driving(log: string[]): typeof go {
  return go.mockReset().mockImplementation(async () => {
    log.push("driven");
    return { outcome: "finished", reason: "done", message: { do: "delete" }, row: "written" };
  });
}

test("it is noted as alone before it is driven, its deadline counts from then, and the gate opens after it", async () => {
  const { context, gate, log } = stand(1);
  driving(log).mockImplementationOnce(async () => {
    log.push(gate.enter() ? "open" : "closed");
    return { outcome: "finished", reason: "done", message: { do: "delete" }, row: "written" };
  });
  expect(await workAlone(context, go)).toMatchObject({ outcome: "finished" });
  expect(log).toEqual(["noted alone", "agent.alone=true", "deadline restarted", "closed"]);
  expect(gate.enter()).toBe(true);
});

test("the gate opens after a run that failed, too", async () => {
  const { context, gate } = stand(1);
  go.mockReset().mockRejectedValue(new Error("the model is down"));
  await expect(workAlone(context, go)).rejects.toThrow("the model is down");
  expect(gate.enter()).toBe(true);
});

test("beside another that is alone or waits for it, it is given back soon", async () => {
  const { context, gate, log } = stand(3);
  void gate.alone(new AbortController().signal);
  const ending = await workAlone(context, driving(log));
  expect(ending).toMatchObject({ outcome: "deferred", message: { do: "return", afterMs: 1_500 } });
  expect(ending).toMatchObject({ row: "written", release: { threadId: "t", fence: "7" } });
  expect(log).toEqual([]);
});

test("when the others do not end by its deadline, it is given back and no failure is counted", async () => {
  const { context, deadline, log } = stand(3);
  const ended = workAlone(context, driving(log));
  deadline.abort();
  expect(await ended).toMatchObject({ outcome: "deferred", reason: expect.stringContaining("2 other deliveries") });
  expect(log).toEqual([]);
});

test("a drain hands it back", async () => {
  const { context, drain, log } = stand(2);
  const ended = workAlone(context, driving(log));
  drain.abort();
  expect(await ended).toMatchObject({ outcome: "handback", message: { do: "return", afterMs: 0 } });
  expect(log).toEqual([]);
});

test("a lease lost in the wait is lost, whatever else fired", async () => {
  const { context, lease, drain, log } = stand(2);
  const ended = workAlone(context, driving(log));
  lease.abort(new Error("lost"));
  drain.abort();
  await expect(ended).rejects.toThrow("lost");
  expect(log).toEqual([]);
});
