// Failed receives: which kind of failure it was, and how long the next receive waits for it. Pure.

/**
 * `stuck` is a poll that the watchdog cut; `other` whatever no rule knows. A queue that silently answers nothing is none of
 * these: SQS says so of an empty queue, and of one at its limit of messages in flight.
 */
export type ReceiveFailure = "auth" | "throttle" | "network" | "queue_gone" | "kms" | "stuck" | "other";

export const RECEIVE_FAILURES: readonly ReceiveFailure[] = [
  "auth",
  "throttle",
  "network",
  "queue_gone",
  "kms",
  "stuck",
  "other",
];

/** Name of the error that the watchdog's cut ends in (intake-client.ts). */
export const POLL_STUCK = "PollStuckError";

/** In this order: "KMS throttled" is a throttle, "KMS access denied" is for whoever looks after the key, not the queue. */
const RULES: readonly { readonly failure: ReceiveFailure; readonly names: RegExp }[] = [
  { failure: "stuck", names: new RegExp(`^${POLL_STUCK}$`) },
  { failure: "throttle", names: /throttl|toomanyrequests|requestlimitexceeded|slowdown|^overlimit$/i },
  { failure: "kms", names: /^kms/i },
  { failure: "queue_gone", names: /queuedoesnotexist|nonexistentqueue|queuedeletedrecently|^invalidaddress$/i },
  {
    failure: "auth",
    names:
      /credential|expiredtoken|requestexpired|tokenprovider|invalidclienttokenid|unrecognizedclient|invalidaccesskey|signature|accessdenied|authenticationtoken|notauthorized|optinrequired|^invalidsecurity$/i,
  },
  {
    failure: "network",
    names:
      /^(ECONN\w+|ENOTFOUND|EAI_\w+|ETIMEDOUT|EPIPE|EHOSTUNREACH|ENETUNREACH|ENETDOWN|CERT_\w+|ERR_TLS\w*|NetworkingError|TimeoutError|UnknownEndpoint)$/,
  },
];

/** How deep an error's causes are looked at: sqs-consumer wraps the SDK's error, which may wrap the socket's. */
const CAUSES_MAX = 5;

/** @param error what sqs-consumer or the SDK threw; never throws itself */
export function classifyReceive(error: unknown): ReceiveFailure {
  const { names, statuses } = facetsOf(error);
  const rule = RULES.find((candidate) => names.some((name) => candidate.names.test(name)));
  if (rule !== undefined) return rule.failure;
  if (statuses.includes(429)) return "throttle";
  return statuses.some((status) => status === 401 || status === 403) ? "auth" : "other";
}

interface Facets {
  readonly names: readonly string[];
  readonly statuses: readonly number[];
}

function facetsOf(error: unknown): Facets {
  const names: string[] = [];
  const statuses: number[] = [];
  let current = error;
  for (let depth = 0; depth < CAUSES_MAX && typeof current === "object" && current !== null; depth += 1) {
    // An error of any library: each field is looked at, none is trusted to be there.
    const { name, code, Code, statusCode, $metadata, cause } = current as Readonly<Record<string, unknown>>;
    for (const text of [name, code, Code]) if (typeof text === "string") names.push(text.split(".").at(-1) ?? text);
    if (typeof statusCode === "number") statuses.push(statusCode);
    if (typeof $metadata === "object" && $metadata !== null && "httpStatusCode" in $metadata)
      statuses.push(Number($metadata.httpStatusCode));
    current = cause;
  }
  return { names, statuses };
}

/** What mends itself soon is asked for soon again; what a person has to mend is asked for once a minute. */
const BACKOFF: Readonly<Record<ReceiveFailure, { readonly baseMs: number; readonly maxMs: number }>> = {
  auth: { baseMs: 1_000, maxMs: 60_000 },
  throttle: { baseMs: 500, maxMs: 30_000 },
  network: { baseMs: 500, maxMs: 20_000 },
  // SQS itself asks for 60 s between the deletion of a queue and its new creation under the name.
  queue_gone: { baseMs: 2_000, maxMs: 60_000 },
  kms: { baseMs: 1_000, maxMs: 60_000 },
  // It has waited for the whole poll already.
  stuck: { baseMs: 250, maxMs: 5_000 },
  other: { baseMs: 500, maxMs: 30_000 },
};
/** The lowest part of the range is left out: full jitter may draw zero again and again, which is a hot loop. */
const FLOOR_SHARE = 0.2;

/**
 * How long the next receive waits: full jitter over the capped doubling, above a fifth of it. So ten minutes without
 * credentials make at most 60 receives whatever is drawn (Q12; `intake-failure.test.ts`).
 *
 * @param consecutive failed receives since the last answered one, this one included, of whatever kind
 * @param random 0 to 1
 */
export function receiveBackoffMs(failure: ReceiveFailure, consecutive: number, random: number): number {
  const { baseMs, maxMs } = BACKOFF[failure];
  const ceiling = Math.min(maxMs, baseMs * 2 ** Math.min(consecutive, 30));
  return ceiling * (FLOOR_SHARE + (1 - FLOOR_SHARE) * random);
}
