// Channel versions that no other branch of the thread can mint, as numbers, so that old integer versions stay comparable.

import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";

/**
 * The version after `current`: the next whole number plus a random fraction.
 *
 * Stock integers collide when two branches of a thread write the same channel: PostgresSaver keys blobs by (thread, namespace,
 * channel, version) and does nothing on conflict, so the second writer's value is lost without a word (langgraphjs#1812).
 *
 * Why a number and not the zero-padded string that LangGraph's Python savers use: a thread begun by a stock JS saver keeps integer
 * versions in channels that are not written again, and `maxChannelVersion` compares a mixed pair as text, where "10" is greater than
 * "000...11.x". The maximum then stays at 10, every following step mints another 11.y, and a node that runs again (any agent loop)
 * is compared by the random part: the run stops early as if finished. A fraction compares right with integers everywhere, stays
 * exact through JSON and jsonb, and a stock saver can take the thread back. Proven in test/langgraph-versions.test.ts.
 */
export function nextUniqueVersion(current: number | undefined, random: () => number = Math.random): number {
  return Math.floor(current ?? 0) + 1 + fraction(random);
}

// Never 0, which a stock saver could mint as well; 2^-40 steps keep the sum exact up to version 8191 and monotonic beyond.
function fraction(random: () => number): number {
  const steps = 2 ** 40;
  return (1 + Math.floor(random() * (steps - 1))) / steps;
}

/**
 * The version after `current` for a thread whose versions may be strings, because a saver of another kind wrote them.
 * A padded counter is continued in its own form; any other string is the inner saver's own business.
 */
export function nextVersionLike(inner: BaseCheckpointSaver, current: unknown): number | string {
  if (typeof current !== "string") return nextUniqueVersion(typeof current === "number" ? current : undefined);
  const counter = /^(\d{1,32})(?:\.|$)/.exec(current)?.[1];
  // The declared type is number, but a saver with string versions takes and gives strings here.
  if (counter === undefined) return inner.getNextVersion(current as unknown as number);
  const next = (BigInt(counter) + 1n).toString().padStart(counter.length, "0");
  return `${next}.${fraction(Math.random).toFixed(16).slice(2)}`;
}
