// How figures are printed: one JSON line each, or one line for people. Pure: figures in, text out.

import type { Benchmark, Figure } from "./benchmark.ts";

export function jsonLine(figure: Figure): string {
  const { name, value, unit, baseline, ratio, n, spread } = figure;
  const rounded = {
    name,
    value: rounding(value),
    unit,
    baseline: rounding(baseline),
    ratio: rounding(ratio),
    n,
    spread: spread === null ? null : spread.map(rounding),
  };
  return JSON.stringify(figure.value === null ? { ...rounded, void: figure.void } : rounded);
}

export function humanLine(figure: Figure): string {
  const name = figure.name.padEnd(34);
  if (figure.value === null) return `${name} VOID: ${figure.void}`;
  const { value, unit, baseline, ratio, n, spread } = figure;
  const against = baseline === null ? "" : `, baseline ${show(baseline)} ${unit}`;
  const through = ratio === null ? "" : `, ratio ${show(ratio)}`;
  return `${name} ${show(value)} ${unit}${against}${through}  [${spread.map(show).join("..")}]  n=${n}`;
}

export function listLine({ name, unit, what }: Pick<Benchmark, "name" | "unit" | "what">): string {
  return `${name.padEnd(34)} ${unit.padEnd(4)} ${what}`;
}

/** Four significant digits: more would be noise. */
function rounding(value: number): number;
function rounding(value: number | null): number | null;
function rounding(value: number | null): number | null {
  return value === null ? null : Number(value.toPrecision(4));
}

function show(value: number): string {
  return String(Number(value.toPrecision(3)));
}
