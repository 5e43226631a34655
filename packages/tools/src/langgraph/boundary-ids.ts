// The record beside an assistant message: which state id stands for which id of the provider, and why.
import type { AIMessage } from "@langchain/core/messages";
import { PRODUCT } from "@reprise/tracing";

/** Why a call does not go by the provider's id; `cut` is about its arguments and may stand alone. */
export type CallRefSource = "provider" | "missing" | "repeated" | "weak";

export interface CallRecord {
  /** The provider's own id; null when it gave none. */
  readonly id: string | null;
  readonly source: CallRefSource;
  /** The model's output ended inside this call: it must not run (G07). */
  readonly cut?: true;
}

const FIELD = `${PRODUCT.name}_call_ids`;

/** Per state id. Empty when the boundary had nothing to change. */
export function callRecords(message: AIMessage): Readonly<Record<string, CallRecord>> {
  const stored: unknown = message.additional_kwargs[FIELD];
  // Only `withRecords` writes the field; it comes back from JSON in the same shape.
  return typeof stored === "object" && stored !== null ? (stored as Readonly<Record<string, CallRecord>>) : {};
}

export function withRecords(
  kwargs: Readonly<Record<string, unknown>>,
  records: Readonly<Record<string, CallRecord>>,
): Record<string, unknown> {
  const { [FIELD]: _before, ...others } = kwargs;
  return Object.keys(records).length === 0 ? others : { ...others, [FIELD]: records };
}
