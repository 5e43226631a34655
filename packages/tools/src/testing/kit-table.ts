// The crash table as text: a row a tool, a column a point and strike, in each cell how often the provider did it.
import type { ConformanceReport } from "./kit.ts";
import type { Played } from "./kit-lane.ts";
import { POINT_TITLES, POINTS, type Point, STRIKES, type Strike } from "./points.ts";

/**
 * Markdown. A cell reads `1` or `0, unknown`: executions of one call, and what the model was told if not done. Cells whose
 * plays differ list each with its number: `1 x11; 2 x1`.
 */
export function crashTable(reports: readonly ConformanceReport[]): string {
  const rows = reports.flatMap((report) =>
    STRIKES.filter((strike) => report.plays.some((played) => played.strike === strike)).map((strike) => [
      report.tool,
      report.policy ?? "no ledger",
      strike,
      ...POINTS.map((point) => cellOf(report, point, strike)),
      report.broken.length === 0 ? "" : `${report.broken.length} broken`,
    ]),
  );
  const head = ["tool", "policy", "strike", ...POINTS.map((point) => POINT_TITLES[point]), ""];
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`;
  return [line(head), `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`, ...rows.map(line)].join("\n");
}

function cellOf(report: ConformanceReport, point: Point, strike: Strike): string {
  const plays = report.plays.filter((played) => played.point === point && played.strike === strike);
  const counts = new Map<string, number>();
  for (const played of plays) counts.set(textOf(played), (counts.get(textOf(played)) ?? 0) + 1);
  const texts = [...counts];
  if (texts.length === 1) return texts[0]?.[0] ?? "";
  return texts.map(([text, count]) => `${text} x${count}`).join("; ");
}

function textOf({ executions, told }: Played): string {
  return told === "done" ? String(executions) : `${executions}, ${told}`;
}
