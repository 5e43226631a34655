// What the command prints, without a terminal: widths, colours, what may not reach a terminal or a spreadsheet.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ageOption, filterOption, wholeOption } from "../src/cli-options.ts";
import { type Column, csv, fields, printable, type Screen, screenOf, table, toneOf } from "../src/cli-print.ts";
import { nearestOf } from "../src/cli-run-nearest.ts";
import { matching, type RunSummary } from "../src/cli-runs.ts";
import { wantsNoColour } from "../src/env.ts";

const PIPE: Screen = { columns: undefined, colour: false };
interface Row {
  readonly id: string;
  readonly reason: string;
}
const columns: readonly Column<Row>[] = [
  { title: "id", value: (row) => row.id, tone: () => toneOf("finished") },
  { title: "reason", value: (row) => row.reason },
];

describe("a table", () => {
  it("is never wider than the terminal, and loses nothing in a pipe", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ id: fc.string(), reason: fc.string() })),
        fc.integer({ min: 20, max: 200 }),
        (rows, width) => {
          const lines = table(rows, columns, { columns: width, colour: false }).split("\n");
          expect(Math.max(...lines.map((line) => [...line].length))).toBeLessThanOrEqual(width);
          const piped = table(rows, columns, PIPE);
          for (const { reason } of rows) expect(piped).toContain(printable(reason).trimEnd());
          expect(piped.split("\n")).toHaveLength(rows.length + 2);
        },
      ),
    );
  });

  it("cuts the widest column and leaves short ones whole", () => {
    const text = table([{ id: "run-1", reason: "x".repeat(100) }], columns, { columns: 40, colour: false });
    expect(text.split("\n")[1]).toBe(`run-1  ${"x".repeat(32)}…`);
  });

  it("cuts prose before ids, which are there to be copied", () => {
    const prose = columns.map((column) => (column.title === "reason" ? { ...column, prose: true as const } : column));
    const row = { id: "invoice-2026-06-customer-8123", reason: "the last fault" };
    expect(table([row], prose, { columns: 40, colour: false }).split("\n")[1]).toBe(
      "invoice-2026-06-customer-8123  the last…",
    );
  });

  it("has colour on a terminal alone, and none when NO_COLOR says so", () => {
    const colour = String.fromCharCode(27);
    const rows = [{ id: "run-1", reason: "r" }];
    expect(table(rows, columns, screenOf({ isTTY: true, columns: 80 }, false))).toContain(`${colour}[32mrun-1`);
    expect(table(rows, columns, screenOf({ isTTY: true, columns: 80 }, true))).not.toContain(colour);
    expect(table(rows, columns, screenOf({ columns: 80 }, false))).not.toContain(colour);
    expect(screenOf({ columns: 80 }, false)).toEqual(PIPE);
    expect(wantsNoColour({ NO_COLOR: "1" })).toBe(true);
    expect(wantsNoColour({ NO_COLOR: "" })).toBe(false);
    expect(wantsNoColour({ TERM: "dumb" })).toBe(true);
  });
});

describe("what somebody else wrote", () => {
  it("moves no cursor and makes no line", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(printable(text)).not.toMatch(/[\p{C}\p{Zl}\p{Zp}]/u);
        expect(fields([["x", text]], PIPE).split("\n")).toHaveLength(2);
      }),
    );
  });

  it.each(["=1+1", "+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x","y")'])(
    "is no formula in a spreadsheet: %j",
    (text) => {
      const [, cell] = csv([{ a: text }], ["a"]).split("a\r\n");
      expect(cell?.replace(/^"/, "")[0]).toBe("'");
    },
  );

  it("comes out of a CSV as it went in, but for the apostrophe", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.string(), fc.string()), { minLength: 1 }), (rows) => {
        const text = csv(
          rows.map(([a, b]) => ({ a, b })),
          ["a", "b"],
        );
        const safe = (cell: string): string => (/^[=+\-@\t\r\n]/.test(cell) ? `'${cell}` : cell);
        expect(readCsv(text)).toEqual([["a", "b"], ...rows.map((row) => row.map(safe))]);
      }),
    );
  });

  it("leaves our own numbers and times alone", () => {
    expect(csv([{ n: -5, at: new Date(0), none: null }], ["n", "at", "none", "absent"])).toBe(
      "n,at,none,absent\r\n-5,1970-01-01T00:00:00.000Z,,\r\n",
    );
  });
});

/** RFC 4180, by its grammar. */
function readCsv(text: string): string[][] {
  const rows: string[][] = [];
  let [row, cell, quoted]: [string[], string, boolean] = [[], "", false];
  for (let at = 0; at < text.length; at += 1) {
    const letter = text[at] ?? "";
    if (quoted) {
      if (letter !== '"') cell += letter;
      else if (text[at + 1] === '"') {
        cell += '"';
        at += 1;
      } else quoted = false;
    } else if (letter === '"') quoted = true;
    else if (letter === ",") {
      row.push(cell);
      cell = "";
    } else if (letter === "\r" && text[at + 1] === "\n") {
      rows.push([...row, cell]);
      [row, cell] = [[], ""];
      at += 1;
    } else cell += letter;
  }
  return rows;
}

describe("options", () => {
  it.each([
    ["90s", 90_000],
    ["15m", 900_000],
    ["24h", 86_400_000],
    ["30d", 2_592_000_000],
    ["2w", 1_209_600_000],
  ])("read %s as an age", (text, ms) => {
    expect(ageOption("--since", text)).toBe(ms);
  });

  it.each(["", "30", "d", "-1d", "1.5d", "30 d", "1y"])("refuse %j as one, with examples", (text) => {
    expect(() => ageOption("--since", text)).toThrow(/CONFIG_INVALID: --since is ".*90s, 15m, 24h, 30d or 2w/);
  });

  it.each(["", "0", "11", "1e3", "0x5", " 5", "-1"])("refuse %j as a number from 1 to 10", (text) => {
    expect(() => wholeOption("--limit", text, { min: 1, max: 10 })).toThrow("CONFIG_INVALID");
  });
});

describe("a run id that does not exist", () => {
  const ids = ["invoice-2026-06", "invoice-2026-07", "refund-1", "9f21c0aa-1111-4222-8333-444455556666"];
  it.each([
    ["invoice-2026-6", "invoice-2026-06"],
    ["INVOICE-2026-07", "invoice-2026-07"],
    ["9f21c0aa", "9f21c0aa-1111-4222-8333-444455556666"],
    ["refund-l", "refund-1"],
  ])("%s is answered with %s first", (typed, meant) => {
    expect(nearestOf(typed, ids)[0]).toBe(meant);
  });

  it("is answered with nothing when nothing is near", () => {
    expect(nearestOf("zzzzzzzz", ids)).toEqual([]);
  });
});

describe("the filter of runs", () => {
  const run: RunSummary = {
    run_id: "r",
    thread_id: "t",
    agent: "a",
    status: "finished",
    latest_step: 3,
    error_code: null,
    interrupts: null,
    created_at: new Date(0),
    ended_at: null,
    position: "1",
    deliveries: 3,
    latest: [delivery("d3", 1, "handback"), delivery("d2", 2, "visibility_expired"), delivery("d1", 1, "none")],
  };
  const found = (where: string) => {
    const filter = filterOption(where);
    return filter === undefined ? undefined : matching(run, filter);
  };

  it.each([
    "receive_count>1 and cause=visibility_expired",
    "agent.receive_count>1 and agent.redelivery_cause=visibility_expired",
  ])("sees each delivery on its own, under short and full names: %s", (where) => {
    expect(found(where)).toMatchObject({ delivery_id: "d2" });
  });

  it("does not put one delivery's cause to another's count", () => {
    expect(found("receive_count>1 and cause=handback")).toBeUndefined();
  });

  it("sees a run that has no delivery", () => {
    const filter = filterOption("run_id=r");
    expect(filter && matching({ ...run, latest: [] }, filter)).toBe("run");
  });
});

function delivery(id: string, count: number, cause: string): RunSummary["latest"][number] {
  return {
    delivery_id: id,
    sqs_message_id: "m",
    receive_count: count,
    cause,
    outcome: "finished",
    outcome_code: null,
    resumed_from_step: null,
    worker: "w",
  };
}
