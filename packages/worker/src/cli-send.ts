// `reprise send`: one run request or one answer, from the command line to the queue; prints what was sent as JSON.
import { PRODUCT } from "@reprise/tracing";
import { readOne } from "./config.ts";
import { WorkerError } from "./errors.ts";
import { type Sent, sendAnswer, sendRun } from "./producer.ts";
import type { RunToSend } from "./producer-message.ts";
import { sqsClient } from "./worker.ts";

type Options = Readonly<Record<string, string | boolean | undefined>>;

export async function send(options: Options): Promise<void> {
  const queueUrl = readOne("queueUrl");
  const client = sqsClient({ awsRegion: readOne("awsRegion"), sqsEndpoint: readOne("sqsEndpoint") });
  try {
    const sent = await sendWith(
      options,
      (answer) => sendAnswer(client, queueUrl, answer),
      (run) => sendRun(client, queueUrl, run),
    );
    process.stdout.write(`${JSON.stringify({ run_id: sent.runId, sqs_message_id: sent.sqsMessageId })}\n`);
  } finally {
    client.destroy();
  }
}

async function sendWith(
  options: Options,
  answer: (answer: Parameters<typeof sendAnswer>[2]) => Promise<Sent>,
  run: (run: RunToSend) => Promise<Sent>,
): Promise<Sent> {
  const agent = text(options, "agent");
  const threadId = text(options, "thread");
  if (options["interrupt"] !== undefined) {
    const value = json("--value", text(options, "value"));
    return answer({ agent, threadId, runId: text(options, "run"), interruptId: text(options, "interrupt"), value });
  }
  const onBusy = options["onBusy"];
  if (onBusy !== undefined && onBusy !== "enqueue" && onBusy !== "reject") {
    throw new WorkerError("CONFIG_INVALID", `--on-busy is "${String(onBusy)}", not enqueue or reject`);
  }
  return run({
    agent,
    threadId,
    ...inputOf(options),
    ...(options["run"] === undefined ? {} : { runId: text(options, "run") }),
    ...(onBusy === undefined ? {} : { onBusy }),
    ...(options["supersede"] === true ? { supersede: true } : {}),
    ...(options["replyTo"] === undefined ? {} : { replyTo: text(options, "replyTo") }),
  });
}

function inputOf(options: Options): { readonly input: unknown } | { readonly inputRef: string } {
  if (options["inputRef"] !== undefined) return { inputRef: text(options, "inputRef") };
  if (options["message"] !== undefined)
    return { input: { messages: [{ role: "user", content: text(options, "message") }] } };
  return { input: json("--input", text(options, "input")) };
}

function text(options: Options, name: string): string {
  const value = options[name];
  if (typeof value === "string") return value;
  throw new WorkerError("CONFIG_MISSING", `--${name} is missing. See: ${PRODUCT.name} send --help`);
}

function json(option: string, value: string): unknown {
  try {
    return JSON.parse(value);
  } catch (error) {
    throw new WorkerError("CONFIG_INVALID", `${option} is not JSON: ${error instanceof Error ? error.message : "?"}`, {
      cause: error,
    });
  }
}
