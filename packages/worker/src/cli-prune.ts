// `reprise prune`: old, finished runs and their checkpoints out of the database; the ledger only when asked by its own age.
import { PRODUCT } from "@reprise/tracing";
import { withDatabase } from "./cli-database.ts";
import { ageOption } from "./cli-options.ts";
import { fields, screenOf } from "./cli-print.ts";
import { readOne } from "./config.ts";
import { WorkerError } from "./errors.ts";
import { countPrunable, type Pruned, type PruneOptions, prune as pruneRows } from "./run-prune.ts";

/**
 * SQS keeps a message for at most 14 days (MessageRetentionPeriod), so until then a late copy may come, and only the run's row
 * knows that it is done.
 */
const OLDER_THAN_MIN_MS = 14 * 86_400_000;

export interface PruneCommandOptions {
  readonly olderThan: string;
  readonly effectsOlderThan?: string;
  readonly dryRun?: true;
  readonly json?: true;
}

/** @throws WorkerError PRUNE_TOO_RECENT */
export async function prune(options: PruneCommandOptions): Promise<void> {
  const chosen = optionsOf(options);
  const dry = options.dryRun === true;
  const pruned = await withDatabase("prune", (pool) => (dry ? countPrunable(pool, chosen) : pruneRows(pool, chosen)));
  const line = { dry_run: dry, ...pruned };
  process.stdout.write(options.json === true ? `${JSON.stringify(line)}\n` : text(pruned, dry));
}

function optionsOf(options: PruneCommandOptions): PruneOptions {
  const olderThanMs = ageOption("--older-than", options.olderThan);
  if (olderThanMs < OLDER_THAN_MIN_MS) {
    throw new WorkerError(
      "PRUNE_TOO_RECENT",
      `--older-than ${options.olderThan} is less than 14d, for which SQS may keep a copy of a message: a run whose row is gone would run again. Use 14d or more`,
    );
  }
  const effects = options.effectsOlderThan;
  const effectsOlderThanMs = effects === undefined ? undefined : ageOption("--effects-older-than", effects);
  if (effectsOlderThanMs !== undefined && effectsOlderThanMs < olderThanMs) {
    throw new WorkerError(
      "PRUNE_TOO_RECENT",
      `--effects-older-than ${effects} is less than --older-than ${options.olderThan}: the ledger has to outlive the runs it protects`,
    );
  }
  return {
    olderThanMs,
    checkpointSchema: readOne("checkpointSchema") ?? "public",
    ...(effectsOlderThanMs === undefined ? {} : { effectsOlderThanMs }),
  };
}

function text(pruned: Pruned, dry: boolean): string {
  const head = dry ? "would delete" : "deleted";
  const rows = fields(Object.entries(pruned), screenOf(process.stdout));
  const next = dry
    ? "nothing was deleted; leave --dry-run out to do it\n"
    : `PostgreSQL reuses the space after its next (auto)vacuum; \`${PRODUCT.name} effects\` still has the ledger\n`;
  return `${head}\n${rows}${next}`;
}
