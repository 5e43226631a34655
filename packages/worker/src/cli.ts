#!/usr/bin/env node
// The `reprise` command: parses the command line, loads a command only when it is called, and turns errors into exit codes.
import { PRODUCT } from "@reprise/tracing";
import { Command, CommanderError } from "commander";
import { addOperatorCommands } from "./cli-operator.ts";
import { WorkerError } from "./errors.ts";

/** 2: the command line or the configuration is wrong and nothing was connected to. 1: anything else. */
const EXIT_USAGE = 2;
const EXIT_FAILED = 1;

function program(onFailed: () => void): Command {
  const root = new Command(PRODUCT.name)
    .description("An SQS worker for LangGraph agent runs: resumed from Postgres, charged once, seen in traces")
    // A mistyped command or option is answered with the nearest one.
    .showSuggestionAfterError(true)
    .exitOverride();
  root
    .command("work")
    .description("receive and drive runs of the agents a module exports")
    .argument("<module>", "path of a JavaScript module that exports `agents`")
    .action(async (path: string) => (await import("./cli-work.ts")).work(path));
  root
    .command("send")
    .description("send a run request, or a human's answer")
    .requiredOption("--agent <name>", "name of the agent")
    .requiredOption("--thread <id>", "thread the run belongs to")
    .option("--run <id>", "run id; the same id again is the same run (default: a fresh one)")
    .option("--input <json>", "the graph's input as JSON")
    .option("--message <text>", "short for --input with one user message")
    .option("--input-ref <ref>", "where the input is, for an agent with a loadInput")
    .option("--reply-to <url>", "SQS queue that is told of the run's end and questions")
    .option("--interrupt <id>", "answer this interrupt; needs --run and --value")
    .option("--value <json>", "the answer as JSON")
    .option("--on-busy <policy>", "enqueue (default) or reject, when the thread has an unfinished run")
    .option("--supersede", "take the thread from a run that waits for a human")
    .action(async (options: Readonly<Record<string, string | boolean>>) =>
      (await import("./cli-send.ts")).send(options),
    );
  addOperatorCommands(root);
  root
    .command("check")
    .description("look at everything a worker needs: queue, database, clocks, collector, budget")
    .option("--json", "one JSON object a line")
    .action(async (options: { json?: true }) => {
      if (!(await (await import("./cli-check.ts")).check(options))) onFailed();
    });
  root
    .command("migrate")
    .description("create or update the tables; safe to run from every deploy at once")
    .action(async () => (await import("./cli-migrate.ts")).migrate());
  for (const command of root.commands) command.exitOverride().showSuggestionAfterError(true);
  return root;
}

async function main(argv: readonly string[]): Promise<number> {
  let failed = false;
  const onFailed = (): void => {
    failed = true;
  };
  try {
    await program(onFailed).parseAsync([...argv]);
    return failed ? EXIT_FAILED : 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE;
    const text = error instanceof Error ? error.message : String(error);
    process.stderr.write(`${PRODUCT.name}: ${text}\n`);
    return isUsage(error) ? EXIT_USAGE : EXIT_FAILED;
  }
}

function isUsage(error: unknown): boolean {
  return error instanceof WorkerError && (error.code.startsWith("CONFIG_") || error.code.startsWith("AGENT_"));
}

// A set exit code lets stdout drain; process.exit would cut a piped `runs --json`.
process.exitCode = await main(process.argv);
