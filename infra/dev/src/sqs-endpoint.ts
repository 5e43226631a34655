// The endpoint without HTTP: a request in, an answer out - counted, with the faults applied in front and behind.

import type { SqsCall, SqsReply } from "./sqs-call.ts";
import { type SqsBound, SqsError, type SqsWireError, wireError } from "./sqs-errors.ts";
import { SqsFaultList, type SqsFaults, type SqsFaultTarget } from "./sqs-faults.ts";
import type { SqsMessage } from "./sqs-message.ts";
import { isOperationName, type SqsOperationName } from "./sqs-operation-names.ts";
import { SQS_OPERATION_TABLE } from "./sqs-operations.ts";
import { type SqsClock, type SqsConnection, SqsPolls } from "./sqs-polls.ts";
import { parseRequest, type SqsParameters } from "./sqs-request.ts";
import { queueNameOf, SqsStore } from "./sqs-store.ts";

export interface SqsEndpointOptions {
  readonly region: string;
  readonly account: string;
  readonly clock: SqsClock;
  readonly journalFile?: string | undefined;
}

export interface SqsRequest {
  /** As the header says it, unknown names included. */
  readonly operation: string;
  readonly body: string;
  readonly host: string;
  readonly connection: SqsConnection;
}

export type SqsAnswer =
  | { readonly kind: "reply"; readonly body: SqsReply }
  | { readonly kind: "error"; readonly error: SqsWireError; readonly message: string }
  /** The operation took effect; the connection is to be reset without a word. */
  | { readonly kind: "reset" };

export class SqsEndpoint {
  readonly #clock: SqsClock;
  readonly #polls: SqsPolls<SqsMessage>;
  readonly #store: SqsStore;
  readonly #faults = new SqsFaultList(() => this.countRefusal("faults"));
  readonly #requests = new Map<string, Map<string, number>>();
  readonly #refusals = new Map<SqsBound, number>();

  constructor(options: SqsEndpointOptions) {
    this.#clock = options.clock;
    this.#polls = new SqsPolls(options.clock);
    this.#store = new SqsStore({ ...options, onTouched: (queue) => this.#polls.wake(queue) });
  }

  get faults(): SqsFaults {
    return this.#faults;
  }

  /** Calls by operation name, unknown operations together as "Unknown"; those of one queue when it is named. */
  requests(queue = ""): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#requests.get(queue) ?? []);
  }

  /** What the bounds refused, by bound. */
  refusals(): Readonly<Partial<Record<SqsBound, number>>> {
    return Object.fromEntries(this.#refusals);
  }

  countRefusal(bound: SqsBound): void {
    this.#refusals.set(bound, (this.#refusals.get(bound) ?? 0) + 1);
  }

  /** How many long polls wait now. */
  get pollCount(): number {
    return this.#polls.count;
  }

  /** Never rejects for what a client did wrong; rejects for a failure of the endpoint itself, such as a full disk. */
  async answer(request: SqsRequest): Promise<SqsAnswer> {
    try {
      return await this.#answer(request);
    } catch (error) {
      if (!(error instanceof SqsError)) throw error;
      if (error.bound !== undefined) this.countRefusal(error.bound);
      return { kind: "error", error: wireError(error.code), message: error.message };
    }
  }

  async #answer(request: SqsRequest): Promise<SqsAnswer> {
    const operation = request.operation;
    if (!isOperationName(operation)) {
      this.#count("Unknown", undefined);
      throw new SqsError("UnsupportedOperation", `The embedded endpoint has no operation ${operation.slice(0, 80)}.`);
    }
    const parameters = parseRequest(request.body);
    const target: SqsFaultTarget = { operation, queue: namedQueue(parameters) };
    this.#count(operation, target.queue);
    const slow = this.#faults.use("delay", target);
    if (slow !== undefined && slow.slow !== "reply") await this.#pause(slow.delayMs);
    const refusal = this.#faultyRefusal(target);
    if (refusal !== undefined) return refusal;
    const body = await this.#run(operation, { ...request, parameters });
    if (slow?.slow === "reply") await this.#pause(slow.delayMs);
    // Asked after the effect, and not at all when the operation threw: an error reply is never dropped.
    return this.#faults.use("drop_reply", target) === undefined ? { kind: "reply", body } : { kind: "reset" };
  }

  #run(
    operation: SqsOperationName,
    request: SqsRequest & { readonly parameters: SqsParameters },
  ): SqsReply | Promise<SqsReply> {
    const call: SqsCall = {
      store: this.#store,
      polls: this.#polls,
      faults: this.#faults,
      clock: this.#clock,
      parameters: request.parameters,
      host: request.host,
      connection: request.connection,
    };
    return SQS_OPERATION_TABLE[operation](call);
  }

  #faultyRefusal(target: SqsFaultTarget): SqsAnswer | undefined {
    const throttle = this.#faults.use("throttle", target);
    if (throttle !== undefined) {
      const error = wireError(throttle.code ?? "ThrottlingException");
      return { kind: "error", error, message: `${target.operation} was throttled by a fault.` };
    }
    const named = this.#faults.use("error", target);
    if (named === undefined) return undefined;
    const error = wireError(named.code, named.httpStatus);
    return { kind: "error", error, message: `${target.operation} was refused by a fault.` };
  }

  #pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#clock.after(delayMs, resolve);
    });
  }

  /** Per queue only for queues that exist, so the map is bounded by the bound on queues. */
  #count(operation: string, queue: string | undefined): void {
    for (const key of queue !== undefined && this.#store.find(queue) !== undefined ? ["", queue] : [""]) {
      const counts = this.#requests.get(key) ?? new Map<string, number>();
      counts.set(operation, (counts.get(operation) ?? 0) + 1);
      this.#requests.set(key, counts);
    }
  }

  /** Ends every waiting poll with an empty reply. */
  endPolls(): void {
    this.#polls.close();
  }

  /** After the last answer: nothing may be committed any more. */
  close(): void {
    this.#polls.close();
    this.#store.close();
  }
}

function namedQueue(parameters: SqsParameters): string | undefined {
  const named = parameters["QueueUrl"] ?? parameters["QueueName"];
  return typeof named === "string" ? queueNameOf(named) : undefined;
}
