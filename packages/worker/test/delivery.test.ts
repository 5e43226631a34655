// Proves the receive count of a delivery: only what SQS said, never a default.
import { describe, expect, test } from "vitest";
import { receiveCount } from "../src/delivery.ts";

describe("the receive count (C06)", () => {
  test.each([
    ["3", 3],
    ["1", 1],
    ["1000", 1000],
  ])("is the number in %j", (text, count) => {
    expect(receiveCount({ Attributes: { ApproximateReceiveCount: text } })).toBe(count);
  });

  test.each(["abc", "0", "", "-1", "1.5", "1e3", " 2", "0x2", "99999999999999999999", "NaN"])(
    "is unknown for %j, never 1 and never NaN",
    (text) => {
      expect(receiveCount({ Attributes: { ApproximateReceiveCount: text } })).toBeUndefined();
    },
  );

  test("is unknown without the attribute, and without any attributes", () => {
    expect(receiveCount({ Attributes: {} })).toBeUndefined();
    expect(receiveCount({})).toBeUndefined();
  });
});
