// Results above 64 KB: kept in a store of the user's and known to the row by name and hash. A store that fails never leaves a row
// stuck: the effect is settled by hash and length alone.
import { createHash } from "node:crypto";
import { diag } from "@opentelemetry/api";
import type { StoredResult } from "./effect.ts";
import { messageOf } from "./errors.ts";

/** Where large results live: a bucket, a table, a folder. Both may be asked again for the same key. */
export interface ResultStore {
  /** Keeps the UTF-8 bytes of a JSON text for as long as effects are kept. Resolves to the name under which `get` finds them. */
  put(key: string, bytes: Uint8Array): Promise<string>;
  get(ref: string): Promise<Uint8Array>;
}

/** Within the margin of an effect's lease, so that a store that hangs cannot make others believe that the holder is gone. */
const STORE_MS_MAX = 2_000;

type Large = Extract<StoredResult, { readonly kind: "too_large" }>;

/** The result as the row keeps it: a large one without its text, and with its name when the store took it. */
export async function putLarge(
  store: ResultStore | undefined,
  key: string,
  { json, ...large }: Large,
): Promise<StoredResult> {
  if (store === undefined || json === undefined) return large;
  try {
    return { ...large, ref: await within(store.put(key, Buffer.from(json))) };
  } catch (error) {
    diag.warn(
      `a result of ${large.bytes} bytes is known by its hash only, its store did not take it: ${messageOf(error)}`,
    );
    return large;
  }
}

/** The whole value where the store still has just what was put; else what the row knows. */
export async function getLarge(store: ResultStore | undefined, result: StoredResult): Promise<StoredResult> {
  if (store === undefined || result.kind === "value" || result.ref === undefined) return result;
  try {
    const bytes = await within(store.get(result.ref));
    const hash = createHash("sha256").update(bytes).digest("hex");
    if (hash === result.sha256) return { kind: "value", json: Buffer.from(bytes).toString("utf8") };
    diag.warn(`the result store gave other bytes for ${result.ref} than were put; the result is not shown`);
  } catch (error) {
    diag.warn(`the result store did not give ${result.ref}: ${messageOf(error)}`);
  }
  return result;
}

async function within<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${STORE_MS_MAX} ms`)), STORE_MS_MAX);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
