// What the environment says to `--import @reprise/tracing/register`, beside OpenTelemetry's own variables: the worker's names for the same.

import { getNumberFromEnv, getStringFromEnv } from "@opentelemetry/core";
import type { GateOptions } from "./gate.ts";
import { PRODUCT } from "./product.ts";
import type { TailOptions } from "./tail-sampler-options.ts";

export interface RegisterSettings {
  readonly gate: GateOptions;
  readonly sampling: TailOptions;
  readonly flushMs: number;
  /** What was said and is no usable value; the default is taken, because a preload must not stop the service it watches. */
  readonly refused: readonly string[];
}

const FLUSH_SECONDS = 5;

/** `REPRISE_CONTENT`, `REPRISE_SAMPLE_SHARE`, `REPRISE_SLOW_SECONDS`, `REPRISE_FLUSH_SECONDS`. Never throws. */
export function registerSettings(): RegisterSettings {
  const refused: string[] = [];
  const number = (suffix: string, min: number, max: number): number | undefined => {
    const name = `${PRODUCT.environmentPrefix}${suffix}`;
    if (getStringFromEnv(name) === undefined) return undefined;
    const value = getNumberFromEnv(name);
    if (value !== undefined && value >= min && value <= max) return value;
    refused.push(`${name} must be a number from ${min} to ${max}; the default is taken`);
    return undefined;
  };
  const share = number("SAMPLE_SHARE", 0, 1);
  const slowSeconds = number("SLOW_SECONDS", 0.1, 86_400);
  const content = getStringFromEnv(`${PRODUCT.environmentPrefix}CONTENT`);
  return {
    // The gate takes what it does not know for `none`, with a warning.
    gate: content === undefined ? {} : { content: content as NonNullable<GateOptions["content"]> },
    sampling: {
      ...(share === undefined ? {} : { share }),
      ...(slowSeconds === undefined ? {} : { slowMs: slowSeconds * 1_000 }),
    },
    flushMs: (number("FLUSH_SECONDS", 0, 60) ?? FLUSH_SECONDS) * 1_000,
    refused,
  };
}
