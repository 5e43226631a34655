// `reprise check`: looks at everything a worker needs, and says of each what was found, what is needed and how to mend it.
import { PRODUCT } from "@reprise/tracing";
import { type CheckLine, checkLines, type Verdict, verdictOf } from "./check.ts";
import { collectFacts } from "./check-collect.ts";
import { otlpTarget } from "./check-otlp.ts";
import { processEnvironment, readSettings } from "./config.ts";
import { createPool } from "./pool.ts";
import { sqsClient } from "./worker.ts";

/** @returns whether a worker may start: false when one line failed */
export async function check(options: { readonly json?: true }): Promise<boolean> {
  const config = readSettings();
  const client = sqsClient(config);
  const pool = createPool({
    connectionString: config.databaseUrl,
    max: 2,
    applicationName: `${PRODUCT.name}-check`,
    onError: () => {},
  });
  try {
    const lines = checkLines(await collectFacts({ config, client, pool, otlp: otlpTarget(processEnvironment()) }));
    process.stdout.write(options.json === true ? jsonLines(lines) : printed(lines));
    return verdictOf(lines) !== "fail";
  } finally {
    client.destroy();
    await Promise.race([pool.end(), new Promise((resolve) => setTimeout(resolve, 1_000).unref())]);
  }
}

function jsonLines(lines: readonly CheckLine[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

const MARK: Readonly<Record<Verdict, string>> = { ok: "ok  ", warn: "warn", fail: "FAIL" };

/** One line each, and what to do below those that need it. */
export function printed(lines: readonly CheckLine[]): string {
  const width = Math.max(...lines.map((line) => line.what.length));
  const text = lines.flatMap(({ verdict, what, found, needed, fix }) => [
    `${MARK[verdict]}  ${what.padEnd(width)}  found ${clean(found)}; needed ${clean(needed)}`,
    ...(fix === undefined ? [] : [`      ${"".padEnd(width)}  fix: ${clean(fix)}`]),
  ]);
  return `${[...text, summary(lines)].join("\n")}\n`;
}

function summary(lines: readonly CheckLine[]): string {
  const count = (verdict: Verdict): number => lines.filter((line) => line.verdict === verdict).length;
  return `${count("ok")} ok, ${count("warn")} to improve, ${count("fail")} to mend`;
}

/** Error texts come from servers. */
function clean(text: string): string {
  return text.replace(/\p{C}+/gu, " ");
}
