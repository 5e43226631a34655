// The worker's tables, forward only. What each row is stands above it; the columns name their units.
import type { Migration } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";
import { completionMigration } from "./migrations-completion.ts";
import { deliveryMigration } from "./migrations-delivery.ts";

const s = PRODUCT.schema;

/*
 * runs        one logical execution a producer asked for. A terminal status here is the only proof of "finished":
 *             LangGraph's state reads empty after a rename of a node, and before the last put of a killed one.
 *             `body` is the message itself and `queue_url` where it came from, so that a waiting run can be sent again
 *             without asking the producer.
 * deliveries  one receive of a message, written before any work, so it survives SIGKILL and lets the next holder
 *             tell the story (obituary) and the cause. The run's latest checkpoint at its begin, and whether it had
 *             the worker to itself, tell later whether it got anywhere (run-progress.ts).
 * answers     one human answer, written before use: the same answer again is recognised, another one refused.
 * parked      a message we will not run: its original bytes, the code and the reason. Nothing is lost. A redrive is noted
 *             before its send (`redrive_started_at`) and after it, with the id of the new message (`redriven_as`).
 *
 * runs.status is one of RunStatus (run.ts), without a check: every update of a row, eight a run, would read the constraint from its
 * text form again. JSON is kept as text: jsonb refuses NUL and lone surrogates (case E01), and nothing here is queried by path.
 */
export const workerMigrations: readonly Migration[] = [
  {
    id: "worker-001-runs",
    sql: `
      create sequence ${s}.run_position;
      create table ${s}.runs (
        run_id text primary key,
        thread_id text not null,
        position bigint not null default nextval('${s}.run_position'),
        agent text not null,
        status text not null,
        input_hash text not null,
        queue_url text not null,
        body text not null,
        message_attributes text not null default '{}',
        graph_fingerprint text,
        first_checkpoint_id text,
        first_step int,
        latest_checkpoint_id text,
        latest_step int,
        lost_deliveries int not null default 0,
        failed_deliveries int not null default 0,
        interrupts text,
        cancel_requested_at timestamptz,
        cancel_reason text,
        result text,
        error_code text,
        error_text text,
        waiting_since timestamptz,
        resent_at timestamptz,
        created_at timestamptz not null default clock_timestamp(),
        updated_at timestamptz not null default clock_timestamp(),
        ended_at timestamptz
      ) with (fillfactor = 70);
      create index runs_thread on ${s}.runs (thread_id, position);
      create index runs_waiting on ${s}.runs (waiting_since) where waiting_since is not null;

      create table ${s}.deliveries (
        delivery_id text primary key,
        sqs_message_id text not null,
        receive_count int,
        run_id text not null,
        thread_id text not null,
        worker text not null,
        fence bigint,
        trace_id text not null,
        root_span_id text not null,
        cause text,
        resumed_from_step int,
        started_at timestamptz not null default clock_timestamp(),
        last_beat timestamptz,
        checkpoint_at_begin text,
        alone boolean not null default false,
        ended_at timestamptz,
        outcome text,
        outcome_code text,
        outcome_reason text
      ) with (fillfactor = 70);
      create index deliveries_run on ${s}.deliveries (run_id, started_at);
      create index deliveries_open on ${s}.deliveries (started_at) where ended_at is null;

      create table ${s}.answers (
        interrupt_id text primary key,
        run_id text not null,
        value_hash text not null,
        delivery_id text not null,
        recorded_at timestamptz not null default clock_timestamp(),
        used_at timestamptz
      );

      create table ${s}.parked (
        parked_id bigint generated always as identity primary key,
        sqs_message_id text not null,
        queue_url text not null,
        run_id text,
        thread_id text,
        receive_count int,
        code text not null,
        reason text not null,
        body bytea not null,
        message_attributes text not null,
        trace_id text not null,
        parked_at timestamptz not null default clock_timestamp(),
        redrive_started_at timestamptz,
        redriven_at timestamptz,
        redriven_by text,
        redriven_as text,
        unique (sqs_message_id, code)
      );
    `,
  },
  completionMigration,
  deliveryMigration,
];
