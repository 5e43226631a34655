// The outbox of completions: a trigger writes its rows, so that whatever ends a run has written one in the same transaction.
import type { Migration } from "@reprise/tools";
import { PRODUCT } from "@reprise/tracing";

const s = PRODUCT.schema;

/*
 * completions  what the queue in `reply_to` shall be told: once for each ending of a run, and for each question it asks a
 *              human. `queue_url` is the run's own queue: only workers of that queue send it, by their own allowed list.
 *              Interrupts and error are copied, since the run may go on before they are sent; a result is read from the
 *              run, where it is final. `state` pending -> sent | refused | dead.
 *
 * A trigger and not five statements: runs end in a mark, a park, a refusal, a supersession and a cancel, and the next such
 * statement must not be able to forget (completion.real.test.ts ends runs in each of these ways). Runs without `reply_to`
 * pay for the WHEN condition alone. The count of earlier endings makes the id of a redriven run's second ending its own; the
 * row lock of the update keeps that count right. A resumed run that still asks the same question tells nothing new.
 */
export const completionMigration: Migration = {
  id: "worker-002-completions",
  sql: `
    alter table ${s}.runs add column reply_to text;

    create table ${s}.completions (
      completion_id text primary key,
      run_id text not null references ${s}.runs (run_id) on delete cascade,
      queue_url text not null,
      reply_to text not null,
      status text not null,
      interrupts text,
      error_code text,
      error_text text,
      state text not null default 'pending' check (state in ('pending','sent','refused','dead')),
      sends int not null default 0,
      next_send_at timestamptz not null default clock_timestamp(),
      last_error text,
      sqs_message_id text,
      created_at timestamptz not null default clock_timestamp(),
      settled_at timestamptz
    );
    create index completions_pending on ${s}.completions (queue_url, next_send_at) where state = 'pending';
    create index completions_run on ${s}.completions (run_id);

    create function ${s}.note_completion() returns trigger language plpgsql as $note$
    declare
      earlier int;
    begin
      if new.status = 'interrupted' and exists (
        select 1 from ${s}.completions c
        where c.run_id = new.run_id and c.status = 'interrupted' and c.interrupts is not distinct from new.interrupts) then
        return null;
      end if;
      select count(*) into earlier from ${s}.completions c where c.run_id = new.run_id and c.status = new.status;
      insert into ${s}.completions (completion_id, run_id, queue_url, reply_to, status, interrupts, error_code, error_text)
      values (new.run_id || ':' || new.status || case when earlier = 0 then '' else ':' || (earlier + 1) end,
        new.run_id, new.queue_url, new.reply_to, new.status, new.interrupts, new.error_code, new.error_text);
      return null;
    end
    $note$;

    create trigger runs_completion after update of status on ${s}.runs for each row
      when (new.reply_to is not null and new.status is distinct from old.status and new.status not in ('queued', 'running'))
      execute function ${s}.note_completion();
  `,
};
