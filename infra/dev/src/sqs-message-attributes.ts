// Message attributes: checked on the way in, measured, digested as the AWS SDKs expect, and filtered on the way out.

import { createHash, type Hash } from "node:crypto";
import { invalidParameter } from "./sqs-errors.ts";
import { isRecord, type SqsParameters } from "./sqs-request.ts";

/** As on the wire: binary values stay base64 here and are decoded only to be measured and digested. */
export type SqsAttributeValue =
  | { readonly DataType: string; readonly StringValue: string }
  | { readonly DataType: string; readonly BinaryValue: string };

export type SqsAttributes = Readonly<Record<string, SqsAttributeValue>>;

/** The limit that makes trace propagation drop its headers silently in production: it must bite here as well. */
export const MESSAGE_ATTRIBUTES_MAX = 10;

export function parseAttributes(record: SqsParameters | undefined): SqsAttributes {
  const entries = Object.entries(record ?? {});
  if (entries.length > MESSAGE_ATTRIBUTES_MAX) {
    throw invalidParameter(
      "MessageAttributes",
      entries.length,
      `a message has at most ${MESSAGE_ATTRIBUTES_MAX} attributes`,
    );
  }
  return Object.fromEntries(entries.map(([name, value]) => [name, parseValue(name, value)]));
}

function parseValue(name: string, value: unknown): SqsAttributeValue {
  const parts = isRecord(value) ? value : {};
  const [type, text, binary] = [parts["DataType"], parts["StringValue"], parts["BinaryValue"]];
  if (typeof type !== "string" || !/^(String|Number|Binary)(\.|$)/.test(type)) {
    throw invalidParameter(name, type, "the DataType of an attribute starts with String, Number or Binary");
  }
  if (type.startsWith("Binary") && typeof binary === "string" && binary !== "")
    return { DataType: type, BinaryValue: binary };
  if (!type.startsWith("Binary") && typeof text === "string" && text !== "")
    return { DataType: type, StringValue: text };
  throw invalidParameter(name, type, "the attribute has no value of that type");
}

function valueBytes(value: SqsAttributeValue): Buffer {
  return "BinaryValue" in value ? Buffer.from(value.BinaryValue, "base64") : Buffer.from(value.StringValue);
}

/** Names, types and values all count towards the size of a message. */
export function attributeBytes(attributes: SqsAttributes): number {
  let bytes = 0;
  for (const [name, value] of Object.entries(attributes)) {
    bytes += Buffer.byteLength(name) + Buffer.byteLength(value.DataType) + valueBytes(value).length;
  }
  return bytes;
}

function addPart(hash: Hash, part: Buffer): void {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(part.length);
  hash.update(length).update(part);
}

/**
 * MD5 over the sorted attributes: length-prefixed name, type and value, with one byte saying text (1) or binary (2).
 * The SDK checks it and rejects the whole receive when one message differs. Undefined without attributes.
 * Source: SQS developer guide, "Calculating the MD5 message digest for message attributes".
 */
export function attributesMd5(attributes: SqsAttributes): string | undefined {
  const names = Object.keys(attributes).sort();
  if (names.length === 0) return undefined;
  const hash = createHash("md5");
  for (const name of names) {
    const value = attributes[name];
    if (value === undefined) continue;
    addPart(hash, Buffer.from(name));
    addPart(hash, Buffer.from(value.DataType));
    hash.update(Buffer.from(["BinaryValue" in value ? 2 : 1]));
    addPart(hash, valueBytes(value));
  }
  return hash.digest("hex");
}

/** `All`, `.*`, an exact name, or a prefix written as `prefix.*`. Nothing asked for, nothing returned. */
export function isWanted(name: string, wanted: readonly string[]): boolean {
  return wanted.some((want) => {
    if (want === "All" || want === ".*" || want === name) return true;
    return want.endsWith(".*") && name.startsWith(want.slice(0, -2));
  });
}

export function wantedAttributes(attributes: SqsAttributes, wanted: readonly string[]): SqsAttributes {
  return Object.fromEntries(Object.entries(attributes).filter(([name]) => isWanted(name, wanted)));
}
