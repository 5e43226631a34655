// Counts the bytes a checkpoint saver writes and reads, by wrapping the serializer that is handed to it.

import { JsonPlusSerializer, type SerializerProtocol } from "@langchain/langgraph-checkpoint";
import { type Context, context, createContextKey } from "@opentelemetry/api";

/** What one saver call moved. Mutable: the serializer adds to it while the call runs. */
export interface ByteMeter {
  dumped: number;
  loaded: number;
  /** Serializer calls seen. Zero means no counting serializer is in use (or nothing was moved): then say nothing about bytes. */
  calls: number;
}

// The meter travels in the OpenTelemetry context: a second AsyncLocalStorage would cost every await of the process.
const METER = createContextKey("checkpoint byte meter");

/**
 * Wraps a serializer so that TracedSaver can put `checkpoint.bytes` on its spans. Hand it to the inner saver:
 * `new TracedSaver(new PostgresSaver(pool, countingSerde()))`. Without it, or without a registered context manager,
 * the attribute is absent; nothing else changes. Default inner serializer: LangGraph's JsonPlusSerializer.
 */
export function countingSerde(inner: SerializerProtocol = new JsonPlusSerializer()): SerializerProtocol {
  return {
    async dumpsTyped(data: unknown): Promise<[string, Uint8Array]> {
      const dumped = await inner.dumpsTyped(data);
      const meter = activeMeter();
      if (meter) {
        meter.calls += 1;
        meter.dumped += dumped[1].byteLength;
      }
      return dumped;
    },
    async loadsTyped(type: string, data: Uint8Array | string): Promise<unknown> {
      const meter = activeMeter();
      if (meter) {
        meter.calls += 1;
        meter.loaded += typeof data === "string" ? Buffer.byteLength(data) : data.byteLength;
      }
      return inner.loadsTyped(type, data);
    },
  };
}

/** A meter, and the context in which the counting serializer finds it. */
export function meterIn(parent: Context): { readonly meter: ByteMeter; readonly metered: Context } {
  const meter: ByteMeter = { dumped: 0, loaded: 0, calls: 0 };
  return { meter, metered: parent.setValue(METER, meter) };
}

/** Bytes of a call that stores. */
export function bytesWritten(meter: ByteMeter): number | undefined {
  return meter.calls === 0 ? undefined : meter.dumped;
}

/** Bytes of a call that reads. PostgresSaver revives metadata by dumping and loading it again, so what was dumped is taken off. */
export function bytesRead(meter: ByteMeter): number | undefined {
  return meter.calls === 0 ? undefined : meter.loaded - meter.dumped;
}

function activeMeter(): ByteMeter | undefined {
  // Only meterIn writes this key, so the value is a ByteMeter or nothing.
  return context.active().getValue(METER) as ByteMeter | undefined;
}
