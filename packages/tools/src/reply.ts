// What the model reads about a call: done, failed or unknown. Unknown never reads as failure and invites no new call.
import { ToolMessage } from "@langchain/core/messages";
import type { StoredResult } from "./effect.ts";

export interface ReplyTo {
  readonly toolCallId: string;
  readonly tool: string;
  /** Name of the tool that looks the effect up, when there is one. */
  readonly statusTool?: string;
  /** The tool's own words for its value. Default: a string as it is, anything else as JSON. */
  readonly text?: (value: unknown) => string;
}

/** Name of the companion tool that `lookup` gives for free. */
export function statusToolName(tool: string): string {
  return `get_${tool}_status`;
}

/** The tool's own value, in its own words where it has some. The same for the first execution and for each replay. */
export function doneReply(to: ReplyTo, json: string): ToolMessage {
  return message(to, to.text === undefined ? contentOf(json) : to.text(JSON.parse(json)), "success");
}

/** From the ledger. A result too large to be kept is said to be so: the effect stands, its value is gone. */
export function replayReply(to: ReplyTo, result: StoredResult, effectRef?: string): ToolMessage {
  if (result.kind === "value") return doneReply(to, result.json);
  const detail = `This call was done before. Its result of ${result.bytes} bytes was too large to keep and cannot be shown again.`;
  return message(
    to,
    JSON.stringify({ status: "done", detail, ...(effectRef === undefined ? {} : { effect: effectRef }) }),
    "success",
  );
}

/** Only for outcomes that are proven not to have happened. */
export function failedReply(to: ReplyTo, detail: string): ToolMessage {
  return message(to, JSON.stringify({ status: "failed", detail }), "error");
}

/** Neither success nor error: the message carries no status, so that no provider marks it as an error. */
export function unknownReply(to: ReplyTo, detail: string): ToolMessage {
  const call = to.toolCallId;
  const next_step =
    to.statusTool === undefined
      ? `Say that the outcome of this ${to.tool} call is not known. It may have happened. A person has to find out before anything else is done about it.`
      : `Use ${to.statusTool} with call "${call}" to find out what became of it. Until then assume neither that it happened nor that it did not.`;
  return message(to, JSON.stringify({ status: "unknown", detail: neutral(detail), call, next_step }), undefined);
}

/** What a value becomes as the text of a tool message. */
export function contentOf(json: string): string {
  // Most values are objects, and these are told as they are.
  if (json.startsWith("{")) return json;
  const value: unknown = JSON.parse(json);
  return typeof value === "string" ? value : json;
}

// Error texts of SDKs end in "please try again" often enough; for an unknown outcome that is the wrong advice (B11).
const INVITATION =
  /[^.;!?\n]*\b(?:re-?try|re-?tried|retrying|try(?:ing)? (?:it |this |the request )?again|re-?submit|resend)\b[^.;!?\n]*[.;!?]?/gi;

function neutral(detail: string): string {
  const kept = detail.replace(INVITATION, "").trim();
  return kept === "" ? "No outcome was recorded." : kept;
}

function message(to: ReplyTo, content: string, status: "success" | "error" | undefined): ToolMessage {
  return new ToolMessage({
    content,
    tool_call_id: to.toolCallId,
    name: to.tool,
    ...(status === undefined ? {} : { status }),
  });
}
