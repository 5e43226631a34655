// The SQS client that sqs-consumer polls with: asks for as many messages as slots are taken, and can be cut alone.
import { ReceiveMessageCommand, type ReceiveMessageCommandOutput, type SQSClient } from "@aws-sdk/client-sqs";
import { withoutSpans } from "@reprise/tracing";
import { POLL_STUCK } from "./intake-failure.ts";

/** A poll that has not answered this long after its wait time is stuck, and cut. */
const STUCK_AFTER_MS = 5_000;

export interface PollGate {
  /** Slots taken for the next receive; the poll asks for no more messages than that. Zero: stopping, no receive at all. */
  taken(): number;
  /** Fires on stop: ends the long poll, and nothing else. */
  readonly signal: AbortSignal;
  readonly waitMs: number;
}

/**
 * sqs-consumer's own abort signal reaches deletes as well, and its batch size changes one poll late (facts/queue,
 * section 0). Subclassing keeps its type; only ReceiveMessage goes through here.
 */
export function pollClient(client: SQSClient, gate: PollGate): SQSClient {
  const send = async (command: unknown): Promise<unknown> => {
    if (!(command instanceof ReceiveMessageCommand)) throw new TypeError("the poll client only receives");
    const count = gate.taken();
    if (count === 0) return { $metadata: {} } satisfies ReceiveMessageCommandOutput;
    const request = new ReceiveMessageCommand({ ...command.input, MaxNumberOfMessages: count });
    // No span: instrumentation would make a trace of its own of every empty poll, twenty seconds long and "slow" (Q20).
    return cuttable(gate, (abortSignal) => withoutSpans(() => client.send(request, { abortSignal })));
  };
  // sqs-consumer calls `send` alone; the rest of the client is the real one's.
  return new Proxy(client, { get: (target, key) => (key === "send" ? send : Reflect.get(target, key, target)) });
}

/** How long a cut poll is waited for: what hangs before its request (credentials, DNS) hears no signal. */
const CUT_GRACE_MS = 1_000;

/** Own timer: Node 20 collects an AbortSignal.timeout that only AbortSignal.any knows, and then never fires it. */
function cuttable(gate: PollGate, send: (signal: AbortSignal) => Promise<unknown>): Promise<unknown> {
  const cut = new AbortController();
  return new Promise((resolve, reject) => {
    let late: NodeJS.Timeout | undefined;
    const onCut = (): void => {
      cut.abort();
      late ??= setTimeout(() => reject(stuck()), CUT_GRACE_MS);
    };
    const watchdog = setTimeout(onCut, gate.waitMs + STUCK_AFTER_MS);
    gate.signal.addEventListener("abort", onCut, { once: true });
    if (gate.signal.aborted) onCut();
    const done = (): void => {
      clearTimeout(watchdog);
      clearTimeout(late);
      gate.signal.removeEventListener("abort", onCut);
    };
    // Cut by the watchdog, the SDK says "aborted", which would not tell the stuck poll from a stopped one.
    const failed = (error: unknown): void => reject(cut.signal.aborted && !gate.signal.aborted ? stuck() : error);
    send(cut.signal).then(resolve, failed).finally(done);
  });
}

function stuck(): DOMException {
  return new DOMException("the poll did not answer, and was cut", POLL_STUCK);
}
