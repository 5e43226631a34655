// A program that knows nothing of us, only OpenTelemetry's API: what `register.real.test.ts` runs with the set-up preloaded.

import { SpanStatusCode, trace } from "@opentelemetry/api";

// A blank line between: the set-up is preloaded, so the order of imports does not matter here.

import { get } from "node:http";

const [, , target = "", ending = "ends"] = process.argv;

const started = performance.now();
await trace.getTracer("app").startActiveSpan("process runs", async (root) => {
  root.setAttribute("tool.args", '{"password":"hunter2","amount":5}');
  await (await fetch(`${target}/fetch`)).text();
  await new Promise((resolve, reject) =>
    get(`${target}/http`, (response) => response.resume().once("end", resolve)).once("error", reject),
  );
  root.setStatus({ code: SpanStatusCode.ERROR });
  root.end();
});
trace.getTracer("app").startSpan("uneventful").end();
process.stdout.write(`${JSON.stringify({ workMs: performance.now() - started })}\n`);

if (ending === "waits") setInterval(() => undefined, 1_000);
if (ending === "drains") {
  const busy = setInterval(() => undefined, 1_000);
  process.once("SIGTERM", async () => {
    await new Promise((resolve) => setTimeout(resolve, 300));
    trace.getTracer("app").startActiveSpan("drain", (span) => span.setStatus({ code: 2 }).end());
    clearInterval(busy);
    process.stdout.write("drained\n");
  });
}
process.stdout.write("ready\n");
