// The set-up module of `setup-program.mjs`, imported before anything that is to be instrumented.

import { registerLoader, startTracing, withSpan } from "./child.mjs";

if (process.argv[2] === "loader") registerLoader();
const tracing = startTracing({ serviceName: "program", sampling: { share: 1 } });

export { withSpan };

export async function finish() {
  const started = performance.now();
  const outcome = await tracing.shutdown(1_500);
  return { outcome, shutdownMs: performance.now() - started, stats: tracing.tail.stats() };
}
