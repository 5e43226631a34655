// `node --import @reprise/tracing/register main.js`: tracing before the program's first line, set up by the environment alone.

import { isMainThread } from "node:worker_threads";
import { registerSettings } from "./env.ts";
import { startTracing, type Tracing } from "./setup.ts";

const { gate, sampling, flushMs, refused } = registerSettings();

for (const message of refused) process.emitWarning(message, { code: "TRACING_OPTION_INVALID" });

/**
 * What was started. A program that ends by `process.exit` imports it and waits for `tracing.shutdown(budgetMs)` before; one that
 * just ends, or is ended by a signal that it has no handler for, is flushed here.
 */
export const tracing: Tracing = startTracing({ gate, sampling });

process.once("beforeExit", () => void tracing.shutdown(flushMs).then(leaveIfStuck));

/** An export that still waits would keep the process alive for up to ten seconds past its end. */
function leaveIfStuck(outcome: "flushed" | "timed_out"): void {
  if (outcome === "timed_out") process.exit();
}

// Signals reach the main thread only.
if (isMainThread) for (const signal of ["SIGTERM", "SIGINT"] as const) flushOn(signal);

/**
 * With a handler of the program's own the signal is the program's: it drains and ends, and `beforeExit` flushes. Without one Node
 * would die at once with what is kept and not sent; so it is sent first, and the process dies by the same signal as it would have.
 */
function flushOn(signal: "SIGTERM" | "SIGINT"): void {
  const handler = (): void => {
    if (process.listenerCount(signal) > 1) return;
    void tracing.shutdown(flushMs).finally(() => {
      process.off(signal, handler);
      process.kill(process.pid, signal);
    });
  };
  process.on(signal, handler);
}
