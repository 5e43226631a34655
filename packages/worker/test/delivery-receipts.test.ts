// Proves the shared receipt handles: the newest one for all copies of a message, and none kept for a message that has left.
import { expect, test } from "vitest";
import { Receipts } from "../src/delivery-receipts.ts";

test("the first delivery of a message goes on with the handle of the second (Q16)", () => {
  const receipts = new Receipts();
  const first = receipts.open("m1", "r1");
  expect(first).toMatchObject({ twin: false, receipt: { handle: "r1" } });
  const second = receipts.open("m1", "r2");
  expect(second.twin).toBe(true);
  expect(first.receipt.handle).toBe("r2");
  expect(second.receipt.handle).toBe("r2");
});

test("messages do not share handles, and one that has left is forgotten", () => {
  const receipts = new Receipts();
  const first = receipts.open("m1", "r1");
  const other = receipts.open("m2", "r9");
  const second = receipts.open("m1", "r2");
  first.close();
  expect(receipts.open("m1", "r3").twin).toBe(true);
  expect(second.receipt.handle).toBe("r3");
  expect(other.receipt.handle).toBe("r9");
  second.close();
  other.close();
  expect(receipts.size).toBe(1);
});

test("a message received again after its delivery has ended is no twin (Q15)", () => {
  const receipts = new Receipts();
  receipts.open("m1", "r1").close();
  expect(receipts.open("m1", "r2")).toMatchObject({ twin: false, receipt: { handle: "r2" } });
});
