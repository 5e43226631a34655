// Where a worker process kills itself: right before or right after the n-th statement or SQS command that a pattern names.
import { setTimeout as sleep } from "node:timers/promises";
import { SQSClient, type SQSClientConfig } from "@aws-sdk/client-sqs";
import pg from "pg";

/**
 * Labels are one line of text. A statement is its SQL with single spaces; a COMMIT names the tables its transaction wrote, as
 * in `COMMIT checkpoint_writes`; an SQS command is its name and its input as JSON, after a receive also `(2 messages)`.
 */
export interface Kill {
  readonly when: "before" | "after";
  /** Source of a regular expression over labels. */
  readonly what: string;
  /** Count from here on: only what comes after a label that matches this. */
  readonly armedBy?: string;
  /** Which match strikes. Default the first. */
  readonly nth?: number;
  /** Default SIGKILL, which returns to nobody. SIGSTOP freezes here; after SIGTERM an SQS call is held until the handler ran. */
  readonly signal?: "SIGTERM" | "SIGSTOP";
}

export interface KillSwitch {
  pass(when: Kill["when"], label: string): Promise<void> | undefined;
}

/** A SIGTERM handler runs on the event loop; this is long after it. */
const HANDLER_MS = 100;

export function killSwitch(kill: Kill | undefined): KillSwitch {
  if (kill === undefined) return { pass: () => undefined };
  const what = new RegExp(kill.what);
  const armedBy = kill.armedBy === undefined ? undefined : new RegExp(kill.armedBy);
  let armed = armedBy === undefined;
  let left = kill.nth ?? 1;
  return {
    pass: (when, label) => {
      const hit = armed && when === kill.when && what.test(label);
      if (when === "after" && armedBy?.test(label) === true) armed = true;
      if (!hit) return undefined;
      left -= 1;
      if (left !== 0) return undefined;
      // For SIGKILL and SIGSTOP to oneself the kernel does not return from this call before it took effect (kill(2)).
      process.kill(process.pid, kill.signal ?? "SIGKILL");
      return sleep(HANDLER_MS);
    },
  };
}

type Answered = (error: Error | null, result: unknown) => void;
type Query = (text: string, values?: unknown[], callback?: Answered) => Promise<unknown> | undefined;

/** A pool as a user might bring one, whose every statement passes the switch. */
export function watchedPool(connectionString: string, kills: KillSwitch): pg.Pool {
  const pool = new pg.Pool({ connectionString, max: 6, allowExitOnIdle: true, pipeline: true });
  // pool.query and pool.connect both hand out clients that were announced here first, so one place sees every statement.
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as unknown as Query;
    Object.assign(client, { query: watchedQuery(query, kills) });
  });
  return pool;
}

function watchedQuery(query: Query, kills: KillSwitch): Query {
  let written: readonly string[] = [];
  return (text, values, callback) => {
    const table = /insert into (?:"?\w+"?\.)?"?(checkpoint\w*)"?/i.exec(text)?.[1];
    if (text === "BEGIN") written = [];
    if (table !== undefined && !written.includes(table)) written = [...written, table];
    const label = text === "COMMIT" ? `COMMIT ${written.join(" ")}` : text.replace(/\s+/g, " ").trim();
    void kills.pass("before", label);
    if (callback === undefined) {
      return query(text, values)?.then((result) => {
        void kills.pass("after", label);
        return result;
      });
    }
    return query(text, values, (error, result) => {
      if (error === null || error === undefined) void kills.pass("after", label);
      callback(error, result);
    });
  };
}

/** An SQS client whose every command passes the switch. */
export function watchedSqs(config: SQSClientConfig, kills: KillSwitch): SQSClient {
  const client = new SQSClient(config);
  client.middlewareStack.add(
    (next, context) => async (args) => {
      const label = `${String(context["commandName"])} ${JSON.stringify(args.input)}`;
      await kills.pass("before", label);
      const answer = await next(args);
      const { Messages: messages } = answer.output as { readonly Messages?: readonly unknown[] };
      await kills.pass("after", messages === undefined ? label : `${label} (${messages.length} messages)`);
      return answer;
    },
    { step: "initialize", name: "crashKill" },
  );
  return client;
}
