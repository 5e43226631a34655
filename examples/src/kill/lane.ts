// One lane of the kill harness: a queue, a victim, a standby. Sends a run, kills at a drawn moment, lets the standby finish it.
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { SQSClient } from "@aws-sdk/client-sqs";
import { sendRun } from "@reprise/worker";
import type pg from "pg";
import { childEnvironment, MUTATION_VARIABLE } from "../support/env.ts";
import { SupportError } from "../support/errors.ts";
import type { PaymentsControl } from "../support/payments-client.ts";
import { type KillPlace, placeOf } from "./place.ts";

export type LaneParts = {
  readonly queueUrl: string;
  readonly sqsEndpoint: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly mutation: string;
  readonly pool: pg.Pool;
  readonly payments: PaymentsControl;
  readonly random: () => number;
  /** Share of victims that are frozen past their lease, and thawed when the other has finished, instead of killed. */
  readonly freezeShare: number;
};

export type KilledRun = {
  readonly runId: string;
  readonly customer: string;
  readonly place: KillPlace;
  readonly how: "SIGKILL" | "SIGSTOP";
  /** Rows a thawed worker added to a thread that another had finished: what the fence must make impossible. */
  readonly lateWrites: number;
};

/** After this many kills an undisturbed run is timed again: the moments to kill are drawn from as long as a run takes here and now. */
const CALIBRATE_EVERY = 8;
/** Run ids of those undisturbed runs start with this. */
export const CALIBRATION_PREFIX = "undisturbed";
/** Runs differ in length; the last fifth of the typical one is left out, or too many kills would come after the end. */
const SPAN_SHARE = 0.8;
const FINISH_TIMEOUT_MS = 60_000;
const ENTRY = fileURLToPath(new URL("./lane-worker.js", import.meta.url));

export class Lane {
  readonly #parts: LaneParts;
  readonly #client: SQSClient;
  readonly #children = new Set<ChildProcess>();
  #victim: ChildProcess | undefined;
  #kills = 0;
  #spanMs = 0;

  constructor(parts: LaneParts) {
    this.#parts = parts;
    this.#client = new SQSClient({
      region: "us-east-1",
      endpoint: parts.sqsEndpoint,
      credentials: { accessKeyId: "dev", secretAccessKey: "dev" },
    });
  }

  /** One run: killed once, finished by another process. Rejects when it does not finish. */
  async kill(runId: string): Promise<KilledRun> {
    this.#victim ??= await this.#start();
    const victim = this.#victim;
    const standby = await this.#load();
    if (this.#kills++ % CALIBRATE_EVERY === 0) {
      // The first run of a process loads and connects; the second is what the next ones are like.
      await this.#undisturbed(`${runId}a`);
      this.#spanMs = await this.#undisturbed(`${runId}b`);
    }
    const customer = await this.#send(runId);
    await sleep(this.#parts.random() * this.#spanMs * SPAN_SHARE);
    const how = this.#parts.random() < this.#parts.freezeShare ? "SIGSTOP" : "SIGKILL";
    await strike(victim, how);
    const place = await placeOf(this.#parts, runId, customer);
    await go(standby);
    this.#victim = standby;
    await this.#finished(runId);
    const lateWrites = how === "SIGSTOP" ? await this.#lateWrites(runId, victim) : 0;
    return { runId, customer, place, how, lateWrites };
  }

  /** What PostgreSQL knows of a run that did not finish, for whoever has to find out why. */
  async #story(runId: string): Promise<string> {
    const { rows } = await this.#parts.pool.query(
      `select receive_count, cause, outcome, outcome_code, outcome_reason, fence, round(extract(epoch from clock_timestamp() - started_at)::numeric, 1) as age_s
       from reprise.deliveries where run_id = $1 order by started_at`,
      [runId],
    );
    return JSON.stringify(rows);
  }

  /** Thaws the victim and counts what it still stores. */
  async #lateWrites(runId: string, victim: ChildProcess): Promise<number> {
    const before = await this.#rowsOf(runId);
    await thaw(victim);
    return (await this.#rowsOf(runId)) - before;
  }

  async #rowsOf(runId: string): Promise<number> {
    const { rows } = await this.#parts.pool.query<{ n: number }>(
      `select ((select count(*) from checkpoints where thread_id = $1)
        + (select count(*) from checkpoint_writes where thread_id = $1))::int as n`,
      [`thread_${runId}`],
    );
    return rows[0]?.n ?? 0;
  }

  /** How long a run takes when nobody is killed, in ms. */
  async #undisturbed(before: string): Promise<number> {
    const runId = `${CALIBRATION_PREFIX}_${before}`;
    const sentAt = performance.now();
    await this.#send(runId);
    await this.#finished(runId);
    return performance.now() - sentAt;
  }

  async #send(runId: string): Promise<string> {
    const customer = `cus_${runId}`;
    const input = { messages: [{ role: "user", content: `Charge ${customer}.` }] };
    await sendRun(this.#client, this.#parts.queueUrl, { agent: "billing", threadId: `thread_${runId}`, runId, input });
    return customer;
  }

  stop(): void {
    for (const child of this.#children) child.kill("SIGKILL");
    this.#client.destroy();
  }

  async #start(): Promise<ChildProcess> {
    const child = await this.#load();
    await go(child);
    return child;
  }

  async #load(): Promise<ChildProcess> {
    const { environment, mutation } = this.#parts;
    const child = fork(ENTRY, {
      env: { ...childEnvironment(), ...environment, [MUTATION_VARIABLE]: mutation },
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    this.#children.add(child);
    child.once("exit", () => this.#children.delete(child));
    await said(child);
    return child;
  }

  async #finished(runId: string): Promise<void> {
    const deadline = Date.now() + FINISH_TIMEOUT_MS;
    for (;;) {
      const { rows } = await this.#parts.pool.query<{ status: string }>(
        "select status from reprise.runs where run_id = $1",
        [runId],
      );
      const status = rows[0]?.status;
      if (status === "finished") return;
      if (status === "parked" || status === "failed" || Date.now() > deadline) {
        throw new SupportError(
          "EXAMPLE_FAILED",
          `run ${runId} is ${status ?? "nowhere"}, not finished: ${await this.#story(runId)}`,
        );
      }
      await sleep(20);
    }
  }
}

async function strike(victim: ChildProcess, how: "SIGKILL" | "SIGSTOP"): Promise<void> {
  victim.kill(how);
  if (how === "SIGKILL" && victim.exitCode === null && victim.signalCode === null) await once(victim, "exit");
}

/** A thawed worker gets time to do what it believes it still may, then goes. */
async function thaw(victim: ChildProcess): Promise<void> {
  victim.kill("SIGCONT");
  await sleep(400);
  await strike(victim, "SIGKILL");
}

async function go(child: ChildProcess): Promise<void> {
  const answer = said(child);
  child.send("go");
  await answer;
}

/** The child's next message. Rejects when it ends instead: a worker that cannot start must not leave the harness waiting. */
async function said(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit").then(([code]) => {
    throw new SupportError(
      "EXAMPLE_FAILED",
      `a worker of the harness ended with ${String(code)} before it was told to`,
    );
  });
  await Promise.race([once(child, "message"), ended]);
  ended.catch(() => undefined);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
