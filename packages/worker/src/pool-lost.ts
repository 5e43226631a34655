// Statements whose connection was lost: which errors say so, and the same statement again on another connection.
import { pause } from "./intake-pause.ts";

/** PostgreSQL's connection exceptions, its shutdown and start-up, and its answer when it has no connection left (appendix A). */
const STATES = /^(08\w{3}|57P0[123]|53300)$/;
const SOCKET_CODES = new Set(["ECONNRESET", "ECONNREFUSED", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"]);
/** pg's own words, which carry no code (pg 8.23.1 lib/client.js, pg-pool index.js). */
const WORDS =
  /^(Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect)/;

/** Says that the statement may be given to another connection; not whether it took effect on this one. */
export function isConnectionLost(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // pg puts SQLSTATE and socket codes on the error itself.
  const { code } = error as { readonly code?: unknown };
  return (typeof code === "string" && (STATES.test(code) || SOCKET_CODES.has(code))) || WORDS.test(error.message);
}

const FIRST_WAIT_MS = 50;
const WAIT_MS_MAX = 2_000;

/**
 * Calls again while connections are lost, waiting up to 2 s between two calls, as long as `isLive`. For statements that may
 * be repeated: whether a lost COMMIT took effect is not known (case E02; `pool.real.test.ts`).
 */
export async function overLostConnections<T>(isLive: () => boolean, call: () => Promise<T>): Promise<T> {
  for (let waitMs = FIRST_WAIT_MS; ; waitMs = Math.min(WAIT_MS_MAX, waitMs * 2)) {
    try {
      return await call();
    } catch (error) {
      if (!isConnectionLost(error) || !isLive()) throw error;
      await pause(waitMs, undefined);
      if (!isLive()) throw error;
    }
  }
}
