// What the chunks of one streamed answer tell about time: when the first came, when each tool call was complete. Pure, clock passed in.

import { objectOf, textOf } from "./model-response.ts";

/** More calls than this in one answer are counted and get no event; OpenTelemetry keeps 128 events a span. */
const TOOL_CALLS_MAX = 64;

interface SeenCall {
  id: string | undefined;
  name: string | undefined;
  /** When its latest piece came, epoch milliseconds. */
  lastPieceAt: number;
}

export interface CompletedCall {
  readonly id: string | undefined;
  readonly name: string | undefined;
  readonly completedAt: number;
}

/** The state of one streamed answer. */
export class ModelStream {
  firstChunkAt: number | undefined;
  /** Tool calls past the bound. */
  dropped = 0;
  readonly #calls = new Map<string, SeenCall>();
  #latest: string | undefined;

  /** Takes one chunk; true when it was the first. The chunk's text is no sign of it: pieces of a tool call have none. */
  add(chunk: unknown, at: number): boolean {
    const first = this.firstChunkAt === undefined;
    this.firstChunkAt ??= at;
    const pieces = objectOf(objectOf(chunk)["message"])["tool_call_chunks"];
    if (Array.isArray(pieces)) for (const piece of pieces) this.#take(objectOf(piece), at);
    return first;
  }

  /** Takes one event of LangChain's content-block protocol (LangGraph's v3 streams); true when it brought the first content. */
  addEvent(event: unknown, at: number): boolean {
    const { event: kind, index, content } = objectOf(event);
    if (kind !== "content-block-start" && kind !== "content-block-delta" && kind !== "content-block-finish")
      return false;
    const first = this.firstChunkAt === undefined;
    this.firstChunkAt ??= at;
    const block = objectOf(content);
    if (kind === "content-block-finish" && block["type"] === "tool_call") {
      this.#take({ index, id: block["id"], name: block["name"] }, at);
      // The protocol says that this block is whole; an answer that breaks off later does not undo it.
      this.#latest = undefined;
    }
    return first;
  }

  /**
   * The calls whose arguments have all arrived: every one when the answer has ended, and all but the one that was being written
   * when it broke off. The time is that of the last piece, which is before the answer's end when text or another call follows.
   */
  completed(answer: "ended" | "broken"): readonly CompletedCall[] {
    return [...this.#calls]
      .filter(([key]) => answer === "ended" || key !== this.#latest)
      .map(([, { id, name, lastPieceAt }]) => ({ id, name, completedAt: lastPieceAt }));
  }

  #take(piece: Readonly<Record<string, unknown>>, at: number): void {
    const key = this.#keyOf(piece);
    this.#latest = key;
    const seen = this.#calls.get(key);
    if (seen) {
      seen.id ??= textOf(piece["id"]);
      seen.name ??= textOf(piece["name"]);
      seen.lastPieceAt = at;
    } else if (this.#calls.size >= TOOL_CALLS_MAX) {
      this.dropped += 1;
    } else {
      this.#calls.set(key, { id: textOf(piece["id"]), name: textOf(piece["name"]), lastPieceAt: at });
    }
  }

  // Providers number their calls; without a number, an id begins a call and a piece without one belongs to the call before it.
  #keyOf(piece: Readonly<Record<string, unknown>>): string {
    if (typeof piece["index"] === "number" || typeof piece["index"] === "string") return `#${piece["index"]}`;
    return textOf(piece["id"]) ?? this.#latest ?? "#0";
  }
}
