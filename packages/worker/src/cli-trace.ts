// `reprise trace <run>`: the deliveries of a run as trees, from a collector's file or a sink, with the time nobody claims.
import {
  type ConfiguredConstant,
  type OtlpTrace,
  PRODUCT,
  renderResiduals,
  renderTrace,
  tellingResiduals,
} from "@reprise/tracing";
import { ageOption, invalid } from "./cli-options.ts";
import { screenOf } from "./cli-print.ts";
import { readTraces } from "./cli-trace-read.ts";
import { readOne } from "./config.ts";
import { SETTINGS } from "./config-settings.ts";
import { WorkerError } from "./errors.ts";

export interface TraceOptions {
  readonly from: string;
  readonly constant?: readonly string[];
  readonly json?: true;
}

/** @throws WorkerError TRACE_SOURCE when it cannot be read, TRACE_UNKNOWN when it holds no span of the run */
export async function trace(runId: string, options: TraceOptions): Promise<void> {
  const constants = [...configuredConstants(), ...(options.constant ?? []).map(constantOf)];
  const { traces, spansRead } = await readTraces(options.from, runId);
  if (traces.length === 0) {
    const why =
      spansRead === 0
        ? "it holds no span at all: is the worker's OTEL_EXPORTER_OTLP_ENDPOINT this one, and has the run's delivery ended?"
        : `${spansRead} spans were read: uneventful traces are kept by share (${SETTINGS.sampleShare.env}), and a delivery that works still has not ended`;
    throw new WorkerError("TRACE_UNKNOWN", `no trace of run "${runId}" in ${options.from}; ${why}`);
  }
  process.stdout.write(
    traces
      .map((one) => (options.json === true ? line(one, constants) : tree(one, constants)))
      .join(options.json === true ? "" : "\n"),
  );
}

function tree(one: OtlpTrace, constants: readonly ConfiguredConstant[]): string {
  const { columns } = screenOf(process.stdout);
  const lines = renderTrace(one, columns === undefined ? {} : { columnsMax: columns });
  const found = renderResiduals(tellingResiduals(one, constants), one);
  return `${lines}\n${found === "" ? "" : `${found}\n`}`;
}

function line(one: OtlpTrace, constants: readonly ConfiguredConstant[]): string {
  const residuals = tellingResiduals(one, constants).map((residual) => ({
    span_id: residual.id,
    name: residual.name,
    duration_ms: Number(residual.durationNs) / 1e6,
    uncovered_ms: Number(residual.uncoveredNs) / 1e6,
    intervals: residual.intervals.map(({ position, offsetMs, durationMs, matches }) => ({
      position,
      offset_ms: offsetMs,
      duration_ms: durationMs,
      matches: matches.map(({ name }) => name),
    })),
  }));
  return `${JSON.stringify({ trace_id: one.traceId, duration_ms: one.durationMs, spans: one.spans, residuals })}\n`;
}

/** What this shell's configuration says; a worker with another one has other constants, which `--constant` names. */
function configuredConstants(): readonly ConfiguredConstant[] {
  return (["visibilitySeconds", "runDeadlineSeconds", "drainSeconds", "waitSeconds"] as const).map((name) => ({
    name: SETTINGS[name].env,
    ms: readOne(name) * 1000,
  }));
}

/** `charge timeout=30s` */
function constantOf(text: string): ConfiguredConstant {
  const at = text.lastIndexOf("=");
  if (at < 1)
    throw invalid(
      `--constant is "${text}", not a name and a duration such as "charge timeout=30s" (see ${PRODUCT.name} trace --help)`,
    );
  return { name: text.slice(0, at).trim(), ms: ageOption("--constant", text.slice(at + 1).trim()) };
}
