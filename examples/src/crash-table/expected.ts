// What the crash table must read, cell by cell. facts/effects section 4 in our policies: "absent" licenses no resend.
import type { Played, Point, Strike } from "@reprise/tools/testing";
import type { Subject } from "./subjects.ts";

type Cell = "1" | "2" | "0, unknown" | "1, unknown";
type Row = Readonly<Record<Point, Cell>>;

const row = (...cells: readonly [Cell, Cell, Cell, Cell, Cell]): Row => ({
  before_claim: cells[0],
  after_claim: cells[1],
  after_commit: cells[2],
  after_reply: cells[3],
  after_settle: cells[4],
});

/** Without a claim the first two points are one: before the body. */
const UNGUARDED: Readonly<Record<Strike, Row>> = {
  SIGKILL: row("1", "1", "2", "2", "2"),
  SIGSTOP: row("2", "2", "2", "2", "2"),
};

export const EXPECTED: Readonly<Record<Subject, Readonly<Record<Strike, Row>>>> = {
  "no ledger": UNGUARDED,
  none: UNGUARDED,
  keyed: { SIGKILL: row("1", "1", "1", "1", "1"), SIGSTOP: row("1", "1", "1", "1", "1") },
  lookup: {
    SIGKILL: row("1", "0, unknown", "1", "1", "1"),
    // A holder that was frozen before it sent still sends when it wakes: nobody could have known.
    SIGSTOP: row("1", "1, unknown", "1", "1", "1"),
  },
  once: {
    SIGKILL: row("1", "0, unknown", "1, unknown", "1, unknown", "1"),
    SIGSTOP: row("1", "1, unknown", "1, unknown", "1, unknown", "1"),
  },
};

/** Sentences about plays that read otherwise. */
export function deviations(subject: Subject, plays: readonly Played[]): readonly string[] {
  return plays.flatMap(({ point, strike, executions, told, error }) => {
    const is = told === "done" ? String(executions) : `${executions}, ${told}`;
    const must = EXPECTED[subject][strike][point];
    if (is === must) return [];
    return [`${subject} ${strike} ${point}: ${is}, not ${must}${error === undefined ? "" : ` (${error})`}`];
  });
}
