// What the sampler still knows of traces that are gone: the last 10,000 kept ones and up to 100,000 dropped ones, not more.

import { expect, it } from "vitest";
import { VerdictMemory } from "../src/tail-sampler-verdicts.ts";

it("T10: remembers the last 10,000 kept traces with their reasons, and forgets the oldest first", () => {
  const memory = new VerdictMemory();
  for (let n = 0; n < 10_000; n++) memory.keep(`t${n}`, "error");
  expect(memory.of("t0")).toBe("error");
  for (let n = 10_000; n < 25_000; n++) memory.keep(`t${n}`, "slow");
  expect(memory.of("t14999")).toBeUndefined();
  expect(memory.of("t15000")).toBe("slow");
  expect(memory.of("t24999")).toBe("slow");
});

it("takes the last reason of a trace that is kept twice, and forgets it once", () => {
  const memory = new VerdictMemory();
  memory.keep("twice", "error");
  memory.keep("twice", "slow");
  expect(memory.of("twice")).toBe("slow");
  for (let n = 0; n < 9_999; n++) memory.keep(`t${n}`, "error");
  expect(memory.of("twice")).toBe("slow");
  memory.keep("one more", "error");
  expect(memory.of("twice")).toBeUndefined();
  expect(memory.of("t0")).toBe("error");
});

it("lets a kept local root speak for a trace that another one dropped", () => {
  const memory = new VerdictMemory();
  memory.drop("both");
  expect(memory.of("both")).toBe("dropped");
  memory.keep("both", "effect");
  memory.drop("both");
  expect(memory.of("both")).toBe("effect");
});

it("remembers at least the last 50,000 dropped traces, and fewer than 100,001", () => {
  const memory = new VerdictMemory();
  for (let n = 0; n < 149_999; n++) memory.drop(`t${n}`);
  const known = Array.from({ length: 149_999 }, (_, n) => memory.of(`t${n}`)).filter((of) => of === "dropped").length;
  expect(known).toBeGreaterThanOrEqual(50_000);
  expect(known).toBeLessThanOrEqual(100_000);
  expect(memory.of("t149998")).toBe("dropped");
});
