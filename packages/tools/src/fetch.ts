// The tool context's fetch: puts the key where the profile says and keeps what the wire proved about each request.
import type { BodyStop } from "./dispatch-body.ts";
import { answersForKey, type InFlightWait, isRepeatable, pauseBefore } from "./fetch-in-flight.ts";
import { keyUuid } from "./key.ts";
import type { ProviderProfile } from "./profiles.ts";

/** What is known of one request: never left, left without an answer, or answered. */
export type WireRequest = {
  /** GET, HEAD and OPTIONS; they change nothing by the meaning of HTTP. */
  readonly read: boolean;
  readonly keySent: boolean;
} & (
  | { readonly end: "not_sent"; readonly code: string }
  | { readonly end: "no_answer"; readonly code: string }
  | {
      readonly end: "answered";
      readonly status: number;
      readonly requestId: string | undefined;
      /** "In flight" at the time; the same key was answered since, and that answer counts. */
      readonly overtaken?: true;
    }
);

/** What one execution did on the wire. */
export interface WireEvidence {
  readonly requests: readonly WireRequest[];
  /** Requests that have neither been answered nor failed: with one in flight nothing is proven. */
  readonly inFlight: number;
  /** Requests beyond the bound that were made but not kept; they make every outcome unprovable. */
  readonly dropped: number;
}

export interface Wire {
  readonly fetch: typeof globalThis.fetch;
  evidence(): WireEvidence;
}

export interface WireOptions {
  /** Derived lazily: a read without a thread has no key. */
  readonly key: () => string | undefined;
  /** Keys of labelled writes that the body has asked for; they count as sent keys too. */
  readonly subKeys?: ReadonlySet<string>;
  /** Its signal ends every request. */
  readonly stop: BodyStop;
  readonly profile?: ProviderProfile;
  /** Given for keyed calls: an answer with the profile's `inFlightStatus` is then waited out under the same key. */
  readonly inFlightWait?: InFlightWait;
  /** The real fetch. Default: the global one, looked up per request so that instrumentation is seen. */
  readonly fetch?: typeof globalThis.fetch;
  /** Requests kept. Default 100. */
  readonly requestsMax?: number;
}

/** Whether every request that may have changed something carried the key; undefined when there was none. */
export function keySentOf(evidence: WireEvidence): boolean | undefined {
  const writes = evidence.requests.filter((request) => !request.read && request.end !== "not_sent");
  return writes.length === 0 ? undefined : writes.every((request) => request.keySent);
}

const READS: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);
const REQUEST_ID_HEADERS = ["request-id", "x-request-id", "x-amzn-requestid"] as const;

// Errors that come before the first byte of a request: name resolution, connection, TLS handshake.
const NOT_SENT_CODES: ReadonlySet<string> = new Set([
  "ENOTFOUND",
  "EAI_AGAIN",
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "UND_ERR_CONNECT_TIMEOUT",
  "UND_ERR_INVALID_ARG",
  "ERR_INVALID_URL",
  "CERT_HAS_EXPIRED",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "ERR_TLS_CERT_ALTNAME_INVALID",
]);

/** Every request of an execution must go through this fetch; one that goes around it is a request nobody counted. */
export function createWire(options: WireOptions): Wire {
  const requests: WireRequest[] = [];
  const requestsMax = options.requestsMax ?? 100;
  let inFlight = 0;
  let dropped = 0;
  /** Returns the place it is kept at. */
  const keep = (request: WireRequest): number => {
    if (requests.length < requestsMax) return requests.push(request) - 1;
    dropped += 1;
    return -1;
  };
  const sendOnce = async ({ request, sent }: Prepared): Promise<Answered> => {
    inFlight += 1;
    try {
      const response = await (options.fetch ?? globalThis.fetch)(request);
      const { status } = response;
      const place = keep({ ...sent, end: "answered", status, requestId: requestIdOf(response, options.profile) });
      return { response, place };
    } catch (error) {
      const code = codeOf(error);
      // An abort before the call left is proven only when the signal had fired before we handed the request over.
      keep({ ...sent, end: NOT_SENT_CODES.has(code) ? "not_sent" : "no_answer", code });
      throw error;
    } finally {
      inFlight -= 1;
    }
  };
  const send: typeof globalThis.fetch = async (input, init) => {
    const running: number[] = [];
    for (;;) {
      const prepared = prepare(input, init, options);
      const { response, place } = await sendOnce(prepared);
      if (answersForKey(response.status)) for (const earlier of running) overtake(requests, earlier);
      const waitable = prepared.sent.keySent && !prepared.sent.read && isRepeatable(input, init);
      if (!waitable || response.status !== options.profile?.inFlightStatus) return response;
      const { inFlightWait } = options;
      const pauseMs = inFlightWait === undefined ? undefined : pauseBefore(running.length, inFlightWait);
      if (inFlightWait === undefined || pauseMs === undefined) return response;
      running.push(place);
      await response.body?.cancel();
      await inFlightWait.clock.sleep(pauseMs, prepared.request.signal);
      // A process that was frozen wakes up after its time: nobody expects it to send any more.
      if (inFlightWait.clock.now() >= inFlightWait.untilMs) throw new Error(`Still in flight: ${response.status}`);
    }
  };
  return { fetch: send, evidence: () => ({ requests: [...requests], inFlight, dropped }) };
}

interface Prepared {
  readonly request: Request;
  readonly sent: { readonly read: boolean; readonly keySent: boolean };
}

interface Answered {
  readonly response: Response;
  readonly place: number;
}

function overtake(requests: WireRequest[], place: number): void {
  const request = requests[place];
  if (request?.end === "answered") requests[place] = { ...request, overtaken: true };
}

function prepare(input: string | URL | Request, init: RequestInit | undefined, options: WireOptions): Prepared {
  const { profile, stop } = options;
  stop.signal.throwIfAborted();
  const key = options.key();
  const request = new Request(input, init);
  const carried = new Request(request, { signal: AbortSignal.any([request.signal, stop.signal]) });
  const read = READS.has(carried.method);
  if (key !== undefined && profile?.carrier === "header" && !read && !carried.headers.has(profile.name)) {
    carried.headers.set(profile.name, profile.format === "uuid" ? keyUuid(key) : key);
  }
  return {
    request: carried,
    sent: { read, keySent: key !== undefined && carriesKey(carried, init, [key, ...(options.subKeys ?? [])]) },
  };
}

// A key may stand in a header, in a text body or in the URL.
function carriesKey(request: Request, init: RequestInit | undefined, keys: readonly string[]): boolean {
  const forms = keys.flatMap((key) => [key, keyUuid(key)]);
  const places = [...request.headers.values(), request.url];
  const body = init?.body;
  if (typeof body === "string") places.push(body);
  if (body instanceof URLSearchParams) places.push(body.toString());
  return places.some((place) => forms.some((form) => place.includes(form)));
}

function requestIdOf(response: Response, profile: ProviderProfile | undefined): string | undefined {
  const names = profile?.requestIdHeader === undefined ? REQUEST_ID_HEADERS : [profile.requestIdHeader];
  for (const name of names) {
    const value = response.headers.get(name);
    if (value !== null) return value;
  }
  return undefined;
}

/** The system's or undici's error code, found along the chain of causes; else the error's name. */
export function codeOf(error: unknown): string {
  let current = error;
  for (let depth = 0; depth < 5 && typeof current === "object" && current !== null; depth += 1) {
    if ("code" in current && typeof current.code === "string") return current.code;
    current = "cause" in current ? current.cause : undefined;
  }
  return error instanceof Error ? error.name : "unknown";
}
