// Batches of row statements: who shares one, in which order, and that each gets its own answer or its own error.
import { describe, expect, it } from "vitest";
import { type BatchOptions, RowBatch } from "../src/delivery-batch.ts";

interface Item {
  readonly id: string;
  readonly lock: string;
}

function batch(
  send: (items: readonly Item[]) => Promise<ReadonlyMap<string, string>>,
  options: Partial<BatchOptions<Item, string>> = {},
) {
  const sent: (readonly string[])[] = [];
  const rows = new RowBatch<Item, string>({
    send: (items) => {
      sent.push(items.map(({ id }) => id));
      return send(items);
    },
    idOf: ({ id }) => id,
    lockOf: ({ lock }) => lock,
    gatherMs: 0,
    ...options,
  });
  return { sent, add: (id: string, lock = id) => rows.add({ id, lock }) };
}

/** The answers in another order than the questions, as a statement may give them. */
const reversed = async (items: readonly Item[]): Promise<ReadonlyMap<string, string>> =>
  new Map(items.map(({ id }) => [id, `answer to ${id}`] as const).toReversed());

describe("a batch of row statements", () => {
  it("asks once for all that come in the same turn, sorted by what they lock, and hands each its own answer", async () => {
    const { sent, add } = batch(reversed);
    const answers = await Promise.all([add("c"), add("a"), add("b")]);
    expect(answers).toEqual(["answer to c", "answer to a", "answer to b"]);
    expect(sent).toEqual([["a", "b", "c"]]);
  });

  it("asks again for those that come later", async () => {
    const { sent, add } = batch(reversed);
    await add("a");
    await add("b");
    expect(sent).toEqual([["a"], ["b"]]);
  });

  it("asks for at most fifty at once", async () => {
    const { sent, add } = batch(reversed);
    await Promise.all(Array.from({ length: 120 }, (_, index) => add(`d${index}`)));
    expect(sent.map((ids) => ids.length)).toEqual([50, 50, 20]);
  });

  it("gives a failed statement's error to the one that caused it, and the others their answers", async () => {
    const { sent, add } = batch(async (items) => {
      if (items.some(({ id }) => id === "bad")) throw new Error("no such");
      return reversed(items);
    });
    const answers = await Promise.allSettled([add("a"), add("bad"), add("c")]);
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(answers[0]).toMatchObject({ value: "answer to a" });
    expect(sent).toEqual([["a", "bad", "c"], ["a"], ["bad"], ["c"]]);
  });

  it("rejects whom the answer does not mention: nobody may take another's", async () => {
    const { add } = batch(async () => new Map([["a", "answer to a"]]));
    const answers = await Promise.allSettled([add("a"), add("b")]);
    expect(answers.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
  });

  it("gathers over time where it is told to", async () => {
    const { sent, add } = batch(reversed, { gatherMs: 1 });
    const first = add("a");
    await new Promise(setImmediate);
    await Promise.all([first, add("b")]);
    expect(sent).toEqual([["a", "b"]]);
  });
});
