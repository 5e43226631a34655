// What a body is given.

import { describe, expect, it } from "vitest";
import { toolContext } from "../src/dispatch-call.ts";
import { keyUuid, subKey } from "../src/key.ts";

const key = "0123456789abcdef0123456789abcdef";

const parts = {
  key: () => key,
  stop: new AbortController(),
  fetch: globalThis.fetch,
  threadId: "t1",
  toolCallId: "c1",
  nodeAttempt: 2,
};

describe("the context of a body", () => {
  it("is whole when it is spread or taken apart", () => {
    const { subKey: labelled, ...copy } = { ...toolContext(parts) };
    const { threadId, toolCallId, nodeAttempt, fetch, stop } = parts;
    expect(copy).toEqual({ key, keyUuid: keyUuid(key), signal: stop.signal, fetch, threadId, toolCallId, nodeAttempt });
    expect(labelled("refund")).toBe(subKey(key, "refund"));
  });

  it("asks for key and signal only when the body does", () => {
    let asked = 0;
    const stop = {
      get signal(): AbortSignal {
        asked += 1;
        return parts.stop.signal;
      },
    };
    const context = toolContext({
      ...parts,
      stop,
      key: () => {
        asked += 1;
        return key;
      },
    });
    expect(asked).toBe(0);
    expect([context.key, context.signal]).toEqual([key, parts.stop.signal]);
    expect(asked).toBe(2);
  });
});
