// Proves that attributes of text survive their row and that nothing else breaks a re-send.
import { expect, test } from "vitest";
import { attributesOf, storedAttributes } from "../src/message-attributes.ts";

const traceparent = { DataType: "String", StringValue: `00-${"1".repeat(32)}-${"2".repeat(16)}-01` };

test("the producer's trace and its other attributes of text come back as they were (Q18)", () => {
  const attributes = { traceparent, tenant: { DataType: "String", StringValue: "t1" } };
  expect(attributesOf(storedAttributes(attributes))).toEqual(attributes);
});

test("bytes are left out, and no attributes are none", () => {
  const bytes = { DataType: "Binary", BinaryValue: new Uint8Array([1, 2]) };
  expect(attributesOf(storedAttributes({ traceparent, bytes }))).toEqual({ traceparent });
  expect(attributesOf(storedAttributes(undefined))).toEqual({});
  expect(attributesOf("null")).toEqual({});
});
