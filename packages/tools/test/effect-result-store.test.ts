// Large results in a store of the user's: found again by name and hash, and never a reason for a stuck row.

import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { StoredResult } from "../src/effect.ts";
import { storeResult } from "../src/effect-result.ts";
import { getLarge, putLarge, type ResultStore } from "../src/effect-result-store.ts";

type Large = Extract<StoredResult, { readonly kind: "too_large" }>;

// NUL and a lone surrogate: what Postgres text or jsonb would refuse (E01).
const value = { text: `${"x".repeat(70_000)}\0\uD800` };
const large = storeResult(value) as Large;

function bucket(): ResultStore & { readonly objects: Map<string, Uint8Array> } {
  const objects = new Map<string, Uint8Array>();
  return {
    objects,
    put: async (key, bytes) => {
      objects.set(`results/${key}`, bytes);
      return `results/${key}`;
    },
    get: async (ref) => {
      const found = objects.get(ref);
      if (found === undefined) throw new Error("no such object");
      return found;
    },
  };
}

describe("a result above 64 KB", () => {
  it("comes back whole through its store, NUL and lone surrogates included (E01)", async () => {
    const store = bucket();
    const stored = await putLarge(store, "k1", large);
    expect(stored).toEqual({ kind: "too_large", sha256: large.sha256, bytes: large.bytes, ref: "results/k1" });
    const back = await getLarge(store, stored);
    expect(back.kind === "value" && JSON.parse(back.json)).toEqual(value);
  });

  it("is known by hash and length without a store, and its text never reaches the row", async () => {
    expect(await putLarge(undefined, "k1", large)).toEqual({
      kind: "too_large",
      sha256: large.sha256,
      bytes: large.bytes,
    });
  });

  it("is settled all the same when its store refuses it", async () => {
    const store = { ...bucket(), put: () => Promise.reject(new Error("403")) };
    expect(await putLarge(store, "k1", large)).toEqual({ kind: "too_large", sha256: large.sha256, bytes: large.bytes });
  });

  it("is not shown when its store has lost it, has no store any more, or gives other bytes", async () => {
    const store = bucket();
    const stored = await putLarge(store, "k1", large);
    expect(await getLarge(undefined, stored)).toEqual(stored);
    store.objects.set("results/k1", Buffer.from('{"text":"other"}'));
    expect(await getLarge(store, stored)).toEqual(stored);
    store.objects.clear();
    expect(await getLarge(store, stored)).toEqual(stored);
  });

  describe("with a store that hangs", () => {
    beforeEach(() => {
      vi.useFakeTimers();
    });
    afterEach(() => {
      vi.useRealTimers();
    });

    it("is settled by hash within the margin of its lease", async () => {
      const store = { ...bucket(), put: () => new Promise<never>(() => undefined) };
      const putting = putLarge(store, "k1", large);
      await vi.advanceTimersByTimeAsync(2_000);
      expect(await putting).toEqual({ kind: "too_large", sha256: large.sha256, bytes: large.bytes });
    });
  });
});
