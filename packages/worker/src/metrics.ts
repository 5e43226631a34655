// What the worker counts and measures, as OpenTelemetry metrics by the API alone: without an SDK each of them is a no-op.
import {
  type Attributes,
  type BatchObservableCallback,
  type Counter,
  type Histogram,
  type Meter,
  metrics,
  type Observable,
} from "@opentelemetry/api";
import { ATTR, METRIC, PRODUCT } from "@reprise/tracing";
import type { Redelivery } from "./delivery-cause.ts";
import type { ReceiveFailure } from "./intake-failure.ts";
import { boundedValues } from "./metrics-bound.ts";
import type { DeliveryOutcome } from "./run.ts";

/** Read when an SDK collects, so that none of it costs a delivery anything. */
export interface WorkerGauges {
  readonly active: () => number;
  readonly slots: number;
  readonly oldestLeaseMs: () => number;
}

export interface WorkerMetricsOptions {
  readonly queue: string;
  readonly gauges: WorkerGauges;
  /** Default: the one of the provider that is registered now. Instruments made before an SDK starts stay no-ops for good. */
  readonly meter?: Meter;
}

/** Runs take from milliseconds (settled on sight) to an hour; the convention's own buckets end at ten seconds. */
const PROCESS_SECONDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600];
const RECEIVES = [1, 2, 3, 5, 10, 20, 50];
/** Error codes come from tools and drivers as well: so many different ones become attributes, later ones `_OTHER`. */
const CODES_MAX = 50;

/** One a worker. Every attribute is one of a known few: no run, thread, message or worker id is ever among them. */
export class WorkerMetrics {
  readonly #queue: Attributes;
  readonly #messaging: Attributes;
  readonly #code = boundedValues(CODES_MAX);
  readonly #consumed: Counter;
  readonly #pollsFailed: Counter;
  readonly #duration: Histogram;
  readonly #receiveCount: Histogram;
  readonly #countMissing: Counter;
  readonly #ended: Counter;
  readonly #handedBack: Counter;
  readonly #parked: Counter;
  readonly #leasesLost: Counter;
  readonly #redelivered: Counter;
  readonly #unseen: Counter;
  readonly #buried: Counter;
  readonly #burialsFailed: Counter;
  readonly #close: () => void;

  constructor({ queue, gauges, meter = metrics.getMeter(`${PRODUCT.scope}/worker`) }: WorkerMetricsOptions) {
    this.#queue = { [ATTR.messagingDestination]: queue };
    this.#messaging = {
      ...this.#queue,
      [ATTR.messagingSystem]: "aws_sqs",
      [ATTR.messagingSystemName]: "aws.sqs",
    };
    const counter = (name: string, unit: string, description: string): Counter =>
      meter.createCounter(name, { unit, description });
    const histogram = (name: string, unit: string, description: string, boundaries: number[]): Histogram =>
      meter.createHistogram(name, { unit, description, advice: { explicitBucketBoundaries: boundaries } });
    this.#consumed = counter(METRIC.consumedMessages, "{message}", "Messages received and taken");
    this.#pollsFailed = counter(METRIC.pollsFailed, "{receive}", "Receives that failed, by class");
    this.#duration = histogram(METRIC.processDuration, "s", "From receive to settled, a delivery", PROCESS_SECONDS);
    this.#receiveCount = histogram(METRIC.receiveCount, "{receive}", "SQS's receive count of a delivery", RECEIVES);
    this.#countMissing = counter(METRIC.receiveCountMissing, "{delivery}", "Deliveries without a receive count");
    this.#ended = counter(METRIC.deliveriesEnded, "{delivery}", "Deliveries ended, by outcome");
    this.#handedBack = counter(METRIC.deliveriesHandedBack, "{delivery}", "Given back at a checkpoint on SIGTERM");
    this.#parked = counter(METRIC.messagesParked, "{message}", "Messages kept aside for a person, by code");
    this.#leasesLost = counter(METRIC.leasesLost, "{lease}", "Deliveries that another one took over");
    this.#redelivered = counter(METRIC.deliveriesRedelivered, "{delivery}", "Redeliveries, by cause");
    this.#unseen = counter(METRIC.receivesUnseen, "{receive}", "Receives that SQS counted and no worker has a row of");
    this.#buried = counter(METRIC.obituariesExported, "{delivery}", "Obituaries of lost deliveries that were sent");
    this.#burialsFailed = counter(METRIC.obituariesFailed, "{delivery}", "Obituaries that did not reach the collector");
    this.#close = observe(meter, gauges, this.#queue);
  }

  /** @param receiveCount undefined when SQS did not say: never counted as a first one */
  began(receiveCount: number | undefined): void {
    this.#consumed.add(1, { ...this.#messaging, [ATTR.messagingOperationName]: "receive" });
    if (receiveCount === undefined) this.#countMissing.add(1, this.#queue);
    else this.#receiveCount.record(receiveCount, this.#queue);
  }

  redelivered({ redelivered, cause, unseenReceives }: Redelivery): void {
    if (redelivered) this.#redelivered.add(1, { ...this.#queue, [ATTR.redeliveryCause]: cause });
    if ((unseenReceives ?? 0) > 0) this.#unseen.add(unseenReceives ?? 0, this.#queue);
  }

  ended(ending: { readonly outcome: DeliveryOutcome; readonly code?: string }, tookMs: number): void {
    const { outcome } = ending;
    const code = ending.code === undefined ? undefined : this.#code(ending.code);
    this.#duration.record(tookMs / 1000, {
      ...this.#messaging,
      [ATTR.messagingOperationName]: "process",
      [ATTR.outcome]: outcome,
      ...(code === undefined ? {} : { [ATTR.errorType]: code }),
    });
    this.#ended.add(1, { ...this.#queue, [ATTR.outcome]: outcome });
    if (outcome === "handback") this.#handedBack.add(1, this.#queue);
    if (outcome === "lease_lost") this.#leasesLost.add(1, this.#queue);
    if (outcome === "parked" || outcome === "refused")
      this.#parked.add(1, { ...this.#queue, [ATTR.outcomeCode]: code ?? "none" });
  }

  pollFailed(failure: ReceiveFailure): void {
    this.#pollsFailed.add(1, { ...this.#queue, [ATTR.errorType]: failure });
  }

  buried(sent: boolean): void {
    (sent ? this.#buried : this.#burialsFailed).add(1, this.#queue);
  }

  /** The gauges are read no more: what they read is being closed. */
  close(): void {
    this.#close();
  }
}

function observe(meter: Meter, gauges: WorkerGauges, queue: Attributes): () => void {
  const gauge = (name: string, unit: string, description: string): Observable =>
    meter.createObservableGauge(name, { unit, description });
  const active = gauge(METRIC.deliveriesActive, "{delivery}", "Deliveries in work, those being settled among them");
  const used = gauge(METRIC.slotsUsed, "{slot}", "Slots with a delivery");
  const free = gauge(METRIC.slotsFree, "{slot}", "Slots without one");
  const oldest = gauge(METRIC.leaseOldestAge, "s", "Age of the oldest delivery that holds a lease");
  const read: BatchObservableCallback = (result) => {
    const inWork = gauges.active();
    const busy = Math.min(inWork, gauges.slots);
    result.observe(active, inWork, queue);
    result.observe(used, busy, queue);
    result.observe(free, gauges.slots - busy, queue);
    result.observe(oldest, gauges.oldestLeaseMs() / 1000, queue);
  };
  const all = [active, used, free, oldest];
  meter.addBatchObservableCallback(read, all);
  return () => meter.removeBatchObservableCallback(read, all);
}
