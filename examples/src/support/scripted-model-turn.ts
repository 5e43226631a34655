// Which turn of a script a history asks for, and the whole answer that turn gives: ids, usage, reason to stop.
import { randomBytes } from "node:crypto";
import type { AIMessage, BaseMessage, UsageMetadata } from "@langchain/core/messages";
import type { ToolCall } from "@langchain/core/messages/tool";
import { SupportError } from "./errors.ts";

export type ScriptedCall = {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  /** Given: used as it is, also when it is empty or was used before. */
  readonly id?: string;
};

/** What the model says in one turn. A turn without calls ends the agent's loop. */
export type ScriptedTurn = {
  readonly text?: string;
  readonly calls?: readonly ScriptedCall[];
  /** Time between streamed chunks. Default 0. */
  readonly chunkMs?: number;
};

/** A turn, or a pure function of the whole history that gives one. */
export type ScriptedStep = ScriptedTurn | ((messages: readonly BaseMessage[]) => ScriptedTurn);

/**
 * How calls without an id of their own are named. `unique` is what healthy providers do; the others are what real reports show:
 * `call_0` restarts at 0 in every message, `same` repeats one id within a message too, `counter` counts through the thread,
 * `tool_name` uses the tool's name, `empty` is the empty string, `missing` no id at all.
 */
export type IdStyle = "unique" | "call_0" | "same" | "counter" | "tool_name" | "empty" | "missing";

export type Script = {
  readonly turns: readonly ScriptedStep[];
  readonly idStyle: IdStyle;
};

/** Everything a provider's answer holds. */
export type TurnAnswer = {
  readonly text: string;
  readonly toolCalls: readonly ToolCall[];
  readonly chunkMs: number;
  /** `msg_` and 24 hex digits, drawn anew on each call. */
  readonly messageId: string;
  /** A function of history and answer: about four characters a token. */
  readonly usage: UsageMetadata;
  readonly finishReason: "stop" | "tool_calls";
};

const CHARACTERS_PER_TOKEN = 4;

/** The number of the turn asked for: the model's messages since the last human one. */
export function turnNumber(messages: readonly BaseMessage[]): number {
  const lastHuman = messages.findLastIndex((message) => message.type === "human");
  return messages.slice(lastHuman + 1).filter((message) => message.type === "ai").length;
}

/** Answers a history by the script. Throws SCRIPT_TURN_MISSING past its end, SCRIPT_TURN_EMPTY on a turn that says nothing. */
export function answerTurn(messages: readonly BaseMessage[], script: Script): TurnAnswer {
  const number = turnNumber(messages);
  const step = script.turns[number];
  if (step === undefined) throw missingTurn(number, script.turns.length);
  const turn = typeof step === "function" ? step(messages) : step;
  if (turn.text === undefined && turn.calls === undefined) {
    throw new SupportError(
      "SCRIPT_TURN_EMPTY",
      `turn ${number} of the script has neither text nor calls; give it one of them`,
    );
  }
  const text = turn.text ?? "";
  const toolCalls = nameCalls(turn.calls ?? [], messages, script.idStyle);
  return {
    text,
    toolCalls,
    chunkMs: turn.chunkMs ?? 0,
    messageId: `msg_${randomBytes(12).toString("hex")}`,
    usage: countUsage(messages, text, toolCalls),
    finishReason: toolCalls.length === 0 ? "stop" : "tool_calls",
  };
}

function nameCalls(
  calls: readonly ScriptedCall[],
  messages: readonly BaseMessage[],
  style: IdStyle,
): readonly ToolCall[] {
  const earlier = messages.reduce((sum, message) => sum + callsOf(message).length, 0);
  return calls.map((call, position): ToolCall => {
    const id = call.id ?? nameCall(style, { position, earlier, name: call.name });
    const named = { type: "tool_call" as const, name: call.name, args: { ...call.args } };
    return id === undefined ? named : { ...named, id };
  });
}

function nameCall(
  style: IdStyle,
  call: { readonly position: number; readonly earlier: number; readonly name: string },
): string | undefined {
  switch (style) {
    case "unique":
      return `toolu_${randomBytes(12).toString("hex")}`;
    case "call_0":
      return `call_${call.position}`;
    case "same":
      return "call_0";
    case "counter":
      return `call_${call.earlier + call.position + 1}`;
    case "tool_name":
      return call.name;
    case "empty":
      return "";
    case "missing":
      return undefined;
    default:
      return neverStyle(style);
  }
}

function countUsage(messages: readonly BaseMessage[], text: string, toolCalls: readonly ToolCall[]): UsageMetadata {
  const read = messages.reduce(
    (sum, message) =>
      sum + message.text.length + callsOf(message).reduce((inner, call) => inner + callCharacters(call), 0),
    0,
  );
  const written = toolCalls.reduce((sum, call) => sum + callCharacters(call), text.length);
  const input_tokens = tokens(read);
  const output_tokens = tokens(written);
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
}

function callsOf(message: BaseMessage): readonly ToolCall[] {
  // By type, not by class: a history read from a checkpoint may hold chunks, or messages of another copy of the library.
  return message.type === "ai" ? ((message as AIMessage).tool_calls ?? []) : [];
}

function callCharacters(call: ToolCall): number {
  return call.name.length + JSON.stringify(call.args).length;
}

function tokens(characters: number): number {
  return Math.max(1, Math.ceil(characters / CHARACTERS_PER_TOKEN));
}

function missingTurn(number: number, turns: number): SupportError {
  return new SupportError(
    "SCRIPT_TURN_MISSING",
    `the script has ${turns} turn(s), and the history asks for turn ${number} (counted from 0: it holds ${number} model ` +
      "message(s) since the last human one); add that turn, or end the script with a turn that makes no calls",
  );
}

function neverStyle(style: never): never {
  throw new TypeError(`unknown id style: ${String(style)}`);
}
