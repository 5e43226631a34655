// Proves that node bodies are waited for until they have really ended, however they end, and no longer than wished.
import { expect, test } from "vitest";
import { NodeBodies } from "../src/graph-bodies.ts";

const never = new AbortController().signal;

function held(): { readonly body: Promise<void>; readonly end: () => void; readonly fail: () => void } {
  let end = (): void => {};
  let fail = (): void => {};
  const body = new Promise<void>((resolve, reject) => {
    end = resolve;
    fail = () => reject(new Error("the body failed"));
  });
  return { body, end, fail };
}

test("the wait ends with the last body, one that failed counts as ended, and one that began meanwhile is waited for (Q04)", async () => {
  const bodies = new NodeBodies();
  const [first, second, third] = [held(), held(), held()];
  bodies.add(first.body);
  bodies.add(second.body);
  let ended = false;
  const wait = bodies.ended(never).then((left) => {
    ended = true;
    return left;
  });
  first.fail();
  bodies.add(third.body);
  second.end();
  await new Promise((resolve) => setImmediate(resolve));
  expect(ended).toBe(false);
  expect(bodies.running).toBe(1);
  third.end();
  expect(await wait).toBe(0);
});

test("the wait ends with its signal and says how many go on", async () => {
  const bodies = new NodeBodies();
  bodies.add(held().body);
  const given = new AbortController();
  const wait = bodies.ended(given.signal);
  given.abort();
  expect(await wait).toBe(1);
});

test("with no body there is nothing to wait for", async () => {
  expect(await new NodeBodies().ended(never)).toBe(0);
});
