// The rows of a redrive: one sender at a time, taken over from a process that died, and open again when SQS refused.
import type pg from "pg";
import { describe, expect, it } from "vitest";
import { abandonRedrive, beginRedrive, endRedrive, listParked, readParked } from "../src/run-redrive.ts";
import { scene } from "./scene.ts";

async function park(pool: pg.Pool, runId: string | null, code = "FAULT_LIMIT"): Promise<string> {
  const { rows } = await pool.query<{ id: string }>(
    `insert into reprise.parked (sqs_message_id, queue_url, run_id, code, reason, body, message_attributes, trace_id)
     values (gen_random_uuid()::text, 'q', $1, $2, 'r', '\\x00ff', '{}', '0') returning parked_id::text as id`,
    [runId, code],
  );
  return rows[0]?.id ?? "";
}

const note = (parkedId: string, reopen = false) => ({ parkedId, by: "ada", reopen });

describe("a redrive's row", () => {
  it("lets one of many redrives at the same time send, and none after it (twice the same redrive does not send twice)", async () => {
    const { pool } = await scene();
    const id = await park(pool, null);
    const begun = await Promise.all(Array.from({ length: 5 }, () => beginRedrive(pool, note(id))));
    expect(begun.filter(Boolean)).toHaveLength(1);
    expect(await beginRedrive(pool, note(id))).toBe(false);
    await endRedrive(pool, id, "m-2");
    expect(await beginRedrive(pool, note(id))).toBe(false);
    expect(await listParked(pool, 10)).toMatchObject([{ redriven_by: "ada", redriven_as: "m-2", body_bytes: 2 }]);
  });

  it("is taken over a minute after a sender that never said what became of it, and at once after a refused send", async () => {
    const { pool } = await scene();
    const id = await park(pool, null);
    expect(await beginRedrive(pool, note(id))).toBe(true);
    await pool.query(
      "update reprise.parked set parked_at = parked_at - interval '61 seconds', redrive_started_at = redrive_started_at - interval '61 seconds'",
    );
    expect(await beginRedrive(pool, note(id))).toBe(true);
    await abandonRedrive(pool, id);
    expect(await beginRedrive(pool, note(id))).toBe(true);
  });

  it("opens again when the message is parked again", async () => {
    const { pool } = await scene();
    const id = await park(pool, null);
    await beginRedrive(pool, note(id));
    await endRedrive(pool, id, "m-2");
    await pool.query("update reprise.parked set parked_at = clock_timestamp()");
    expect(await beginRedrive(pool, note(id))).toBe(true);
  });

  it("reopens the run of an answer alone, with its faults at zero", async () => {
    const { pool } = await scene();
    const addRun = (runId: string) =>
      pool.query(
        `insert into reprise.runs (run_id, thread_id, agent, status, input_hash, queue_url, body, failed_deliveries, ended_at)
         values ($1, 't', 'a', 'parked', 'h', 'q', '{}', 5, now())`,
        [runId],
      );
    await addRun("asked");
    await addRun("other");
    await beginRedrive(pool, note(await park(pool, "asked"), true));
    await beginRedrive(pool, note(await park(pool, "other"), false));
    const { rows } = await pool.query("select run_id, status, failed_deliveries from reprise.runs order by run_id");
    expect(rows).toEqual([
      { run_id: "asked", status: "queued", failed_deliveries: 0 },
      { run_id: "other", status: "parked", failed_deliveries: 5 },
    ]);
  });
});

it("finds a parked message by its number or by its run, the newest of it, and gives its bytes as they came", async () => {
  const { pool } = await scene();
  await park(pool, "r");
  const newest = await park(pool, "r", "NO_PROGRESS");
  expect(await readParked(pool, "r")).toMatchObject({ parked_id: newest, code: "NO_PROGRESS" });
  expect((await readParked(pool, newest))?.body).toEqual(Buffer.from([0x00, 0xff]));
  expect(await readParked(pool, "nobody")).toBeUndefined();
});
