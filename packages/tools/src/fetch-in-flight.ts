// Waiting while another request with our key runs at the provider: which request may be sent again, when, and what its answer says.
import type { Clock } from "./dispatch-body.ts";

/** Lets the wire wait. The tool's own signal ends the wait too; `untilMs` ends it early enough for the body to see the answer. */
export interface InFlightWait {
  readonly clock: Clock;
  /** On the clock: no request is sent again at or after it. */
  readonly untilMs: number;
  /** 0 to 1. Default Math.random. */
  readonly random?: () => number;
}

const BASE_MS = 100;
const CAP_MS = 5_000;

/** How long to wait before the next request, 0-based; undefined when the time does not suffice. Half of it is jitter. */
export function pauseBefore(resend: number, wait: InFlightWait): number | undefined {
  const fullMs = Math.min(CAP_MS, BASE_MS * 2 ** resend);
  const pauseMs = fullMs * (0.5 + 0.5 * (wait.random ?? Math.random)());
  return wait.clock.now() + pauseMs < wait.untilMs ? pauseMs : undefined;
}

/**
 * Can the same bytes be sent a second time? Not from a stream, which is used up, nor from a FormData, whose boundary differs each
 * time: a provider that compares bodies would call that another request.
 */
export function isRepeatable(input: string | URL | Request, init: RequestInit | undefined): boolean {
  const body = init?.body ?? undefined;
  if (body === undefined) return !(input instanceof Request) || input.body === null;
  return (
    typeof body === "string" ||
    body instanceof URLSearchParams ||
    body instanceof ArrayBuffer ||
    ArrayBuffer.isView(body) ||
    body instanceof Blob
  );
}

// Given before a server looks at the key, so they say nothing of the request that was running under it.
const BEFORE_THE_KEY: ReadonlySet<number> = new Set([401, 403, 407, 408, 425, 429]);

/** Does this answer, under the same key, also settle the request that was in flight? */
export function answersForKey(status: number): boolean {
  return !BEFORE_THE_KEY.has(status);
}
