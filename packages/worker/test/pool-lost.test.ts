// Which errors mean that a connection is gone, and that a statement is given to another one while its lease lives.
import { describe, expect, test } from "vitest";
import { isConnectionLost, overLostConnections } from "../src/pool-lost.ts";

const coded = (code: string, message = "x"): Error => Object.assign(new Error(message), { code });

describe("an error", () => {
  test.each([
    coded("57P01", "terminating connection due to administrator command"),
    coded("57P03", "the database system is starting up"),
    coded("08006"),
    coded("53300", "sorry, too many clients already"),
    coded("ECONNRESET"),
    coded("ECONNREFUSED"),
    new Error("Connection terminated unexpectedly"),
    new Error("Client has encountered a connection error and is not queryable"),
    new Error("timeout exceeded when trying to connect"),
  ])("says that the connection was lost: %s", (error) => {
    expect(isConnectionLost(error)).toBe(true);
  });

  test.each([coded("23505"), coded("40001"), coded("FENCE_LOST"), new Error("no"), "57P01", undefined])(
    "says something else: %s",
    (error) => {
      expect(isConnectionLost(error)).toBe(false);
    },
  );
});

describe("a call over lost connections", () => {
  const failing = (times: number, error: Error) => {
    let calls = 0;
    return {
      calls: () => calls,
      call: async () => {
        calls += 1;
        if (calls <= times) throw error;
        return "stored";
      },
    };
  };

  test("is made again on another connection", async () => {
    const { call, calls } = failing(2, coded("57P01"));
    expect(await overLostConnections(() => true, call)).toBe("stored");
    expect(calls()).toBe(3);
  });

  test("is not made again after the lease: another worker may hold the thread", async () => {
    const { call, calls } = failing(9, coded("57P01"));
    let live = 2;
    await expect(overLostConnections(() => live-- > 0, call)).rejects.toThrow();
    expect(calls()).toBe(2);
  });

  test("is not made again when the database answered", async () => {
    const { call, calls } = failing(9, coded("23505"));
    await expect(overLostConnections(() => true, call)).rejects.toThrow();
    expect(calls()).toBe(1);
  });
});
