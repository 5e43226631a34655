// The operator's commands as the command line sees them: names, options, help. Each is loaded only when it is called.
import { type Command, Option } from "commander";
import type { CancelOptions } from "./cli-cancel.ts";
import type { EffectsOptions } from "./cli-effects.ts";
import type { ParkedOptions } from "./cli-parked.ts";
import type { PruneCommandOptions } from "./cli-prune.ts";
import type { RedriveOptions } from "./cli-redrive.ts";
import type { RunsOptions } from "./cli-runs.ts";
import type { SettleOptions } from "./cli-settle.ts";
import type { TraceOptions } from "./cli-trace.ts";

const JSON_LINES = "one JSON object a line";

export function addOperatorCommands(root: Command): void {
  addRunCommands(root);
  addParkedCommands(root);
  addEffectCommands(root);
}

function addRunCommands(root: Command): void {
  root
    .command("runs")
    .description("list runs, newest first")
    .option("--where <filter>", 'for example "receive_count>1 and cause=visibility_expired"')
    .option("--limit <n>", "runs to show", "50")
    .option("--json", JSON_LINES)
    .action(async (options: RunsOptions) => (await import("./cli-runs.ts")).runs(options));
  root
    .command("run")
    .description("show one run: its status, deliveries, answers and effects")
    .argument("<run>", "run id")
    .option("--json", "one JSON object")
    .action(async (id: string, options: { json?: true }) => (await import("./cli-run.ts")).run(id, options));
  root
    .command("cancel")
    .description("end a run: at once if nobody drives it, else with its worker's next beat or step")
    .argument("<run>", "run id")
    .option("--reason <text>", "kept in the run's row")
    .option("--wait <seconds>", "how long to wait for a worker to end it", "0")
    .option("--json", "one JSON object")
    .action(async (id: string, options: CancelOptions) => (await import("./cli-cancel.ts")).cancel(id, options));
  root
    .command("trace")
    .description("print a run's deliveries as trees of spans, with the time that none of them claims")
    .argument("<run>", "run id")
    .requiredOption("--from <source>", "a file of OTLP/JSON lines, or the URL of the development sink")
    .option("--constant <name=age>", 'a duration to look for, such as "charge timeout=30s"; may be repeated', collect)
    .option("--json", "one JSON object a trace")
    .action(async (id: string, options: TraceOptions) => (await import("./cli-trace.ts")).trace(id, options));
}

function addParkedCommands(root: Command): void {
  root
    .command("parked")
    .description("list messages that nobody will run, with the reason")
    .option("--where <filter>", 'for example "outcome_code=FAULT_LIMIT and agent=billing"')
    .option("--all", "also those that were redriven")
    .option("--body <id>", "write the bytes of one message as they came, and nothing else")
    .option("--limit <n>", "messages to show", "50")
    .option("--json", JSON_LINES)
    .action(async (options: ParkedOptions) => (await import("./cli-parked.ts")).parked(options));
  root
    .command("redrive")
    .description("send parked messages to their queues again; their runs go on from the last checkpoint")
    .argument("[ids...]", "numbers from `parked`, or run ids")
    .option("--where <filter>", "redrive what matches instead")
    .option("--limit <n>", "messages that --where may choose", "100")
    .option("--dry-run", "say what would be sent")
    .option("--by <name>", "who redrives, for the row (default: account@host)")
    .option("--json", JSON_LINES)
    .action(async (ids: string[], options: RedriveOptions) => (await import("./cli-redrive.ts")).redrive(ids, options));
  root
    .command("prune")
    .description("delete old, finished runs with their deliveries and checkpoints; the ledger stays unless asked")
    .requiredOption("--older-than <age>", "runs that ended longer ago, such as 30d; at least 14d")
    .option("--effects-older-than <age>", "and settled calls of the ledger older than this, such as 400d")
    .option("--dry-run", "count only")
    .option("--json", "one JSON object")
    .action(async (options: PruneCommandOptions) => (await import("./cli-prune.ts")).prune(options));
}

function addEffectCommands(root: Command): void {
  root
    .command("effects")
    .description("list the calls in the ledger, newest first")
    .option("--unknown", "those whose outcome nobody knows")
    .option("--since <age>", "first claimed within this age, such as 24h")
    .option("--thread <id>", "of one thread")
    .option("--where <filter>", 'for example "tool=charge and seen>1"')
    .option("--limit <n>", "calls to show", "100")
    .addOption(new Option("--csv", "for a spreadsheet").conflicts("json"))
    .option("--json", JSON_LINES)
    .action(async (options: EffectsOptions) => (await import("./cli-effects.ts")).effects(options));
  root
    .command("settle")
    .description("say what became of a call whose outcome nobody knows")
    .argument("<call>", "the call as its reply names it, or its key")
    .addOption(new Option("--succeeded", "it took effect: it is replayed from now on").conflicts("failed"))
    .option("--failed", "it did not: the model is told so")
    .requiredOption("--evidence <text>", "how you know: a link, a ticket, what the provider's log shows")
    .option("--result <json>", "what the model reads on replay")
    .option("--effect <ref>", "the provider's name for what happened, such as ch_123")
    .option("--thread <id>", "where several threads have a call of this name")
    .option("--by <name>", "who says so, for the row (default: account@host)")
    .option("--json", "one JSON object")
    .action(async (call: string, options: SettleOptions) => (await import("./cli-settle.ts")).settle(call, options));
}

function collect(value: string, earlier: readonly string[] | undefined): readonly string[] {
  return [...(earlier ?? []), value];
}
