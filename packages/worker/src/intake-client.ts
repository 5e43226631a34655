// The SQS client that sqs-consumer polls with: asks for as many messages as slots are taken, and can be cut alone.
import { ReceiveMessageCommand, type ReceiveMessageCommandOutput, type SQSClient } from "@aws-sdk/client-sqs";

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
    const signal = AbortSignal.any([gate.signal, AbortSignal.timeout(gate.waitMs + STUCK_AFTER_MS)]);
    const request = new ReceiveMessageCommand({ ...command.input, MaxNumberOfMessages: count });
    return client.send(request, { abortSignal: signal });
  };
  // sqs-consumer calls `send` alone; the rest of the client is the real one's.
  return new Proxy(client, { get: (target, key) => (key === "send" ? send : Reflect.get(target, key, target)) });
}
