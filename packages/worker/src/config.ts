// Configuration: the one place that reads the environment, by the table of config-settings.ts.
import { type ChoiceSetting, type NumberSetting, SETTINGS, type Setting } from "./config-settings.ts";
import { WorkerError } from "./errors.ts";

type ValueOf<S extends Setting> = S extends NumberSetting
  ? number
  : S extends ChoiceSetting
    ? S["choices"][number]
    : S extends { required: true } | { default: string }
      ? string
      : string | undefined;

/** The worker's configuration: what `SETTINGS` describes, validated. Times in the unit of their name. */
export type Config = { readonly [K in keyof typeof SETTINGS]: ValueOf<(typeof SETTINGS)[K]> };

export type Environment = Readonly<Record<string, string | undefined>>;

/** Seconds beside drain and flush: letting go after the forced abort (2), obituaries on their way (1), and one to spare. */
export const STOP_MARGIN_SECONDS = 4;
/** SQS extends a message's visibility to at most twelve hours after its receive (ChangeMessageVisibility, SQS API reference). */
export const VISIBILITY_WALL_SECONDS = 43_200;

/**
 * Reads and validates all settings, and whether they fit together.
 *
 * @throws WorkerError CONFIG_MISSING, CONFIG_INVALID: one message that names every variable at fault, its meaning and an example.
 * @throws WorkerError CONFIG_BUDGET when drain, flush and margin do not fit before the platform's SIGKILL.
 */
export function readConfig(environment: Environment = process.env): Config {
  const config = readSettings(environment);
  checkBudget(config);
  return config;
}

/** What variables of others say, read by who knows them (OpenTelemetry's, by the preflight). */
export function processEnvironment(): Environment {
  return process.env;
}

/** The settings, each by its own rule; the preflight says of the budget what `readConfig` throws. Errors as there, without CONFIG_BUDGET. */
export function readSettings(environment: Environment = process.env): Config {
  const problems: { readonly code: "CONFIG_MISSING" | "CONFIG_INVALID"; readonly text: string }[] = [];
  const values: Record<string, string | number | undefined> = {};
  for (const [name, setting] of Object.entries<Setting>(SETTINGS)) {
    const read = readSetting(setting, environment[setting.env]);
    if (read.ok) values[name] = read.value;
    else problems.push(read);
  }
  const first = problems.find((problem) => problem.code === "CONFIG_MISSING") ?? problems[0];
  if (first !== undefined) throw new WorkerError(first.code, problems.map((problem) => problem.text).join("\n"));
  // Every key of SETTINGS was read by its own rule just above, so the shape is Config.
  return values as unknown as Config;
}

/** Reads one setting, for commands that need only that (`migrate` needs no queue). Same errors as `readConfig`. */
export function readOne<K extends keyof Config>(name: K, environment: Environment = process.env): Config[K] {
  const setting: Setting = SETTINGS[name];
  const read = readSetting(setting, environment[setting.env]);
  if (!read.ok) throw new WorkerError(read.code, read.text);
  // The value was read by the rule of this very name.
  return read.value as Config[K];
}

type Read =
  | { readonly ok: true; readonly value: string | number | undefined }
  | { readonly ok: false; readonly code: "CONFIG_MISSING" | "CONFIG_INVALID"; readonly text: string };

function readSetting(setting: Setting, raw: string | undefined): Read {
  // An empty variable is an unset one: that is what compose files and shells produce.
  const text = raw?.trim() === "" ? undefined : raw?.trim();
  const help = `${setting.env}: ${setting.meaning}. Example: ${setting.env}=${setting.example}`;
  if (setting.type === "text") {
    if (text !== undefined || setting.required === undefined) return { ok: true, value: text ?? setting.default };
    return { ok: false, code: "CONFIG_MISSING", text: `${setting.env} is not set. ${help}` };
  }
  if (text === undefined) return { ok: true, value: setting.default };
  return setting.type === "choice" ? readChoice(setting, text, help) : readNumber(setting, text, help);
}

function readChoice(setting: ChoiceSetting, text: string, help: string): Read {
  if (setting.choices.includes(text)) return { ok: true, value: text };
  const wanted = setting.choices.join(", ");
  return { ok: false, code: "CONFIG_INVALID", text: `${setting.env} is "${text}", not one of ${wanted}. ${help}` };
}

function readNumber(setting: NumberSetting, text: string, help: string): Read {
  const value = Number(text);
  const whole = setting.integer === false || Number.isInteger(value);
  if (Number.isFinite(value) && whole && value >= setting.min && value <= setting.max) return { ok: true, value };
  const wanted = `a ${setting.integer === false ? "" : "whole "}number of ${setting.unit}, ${setting.min} to ${setting.max}`;
  return { ok: false, code: "CONFIG_INVALID", text: `${setting.env} is "${text}", not ${wanted}. ${help}` };
}

/** A drain that cannot end before SIGKILL turns every deploy into redeliveries (case D02), so it is refused at start-up. */
function checkBudget(config: Config): void {
  if (config.runDeadlineSeconds + config.visibilitySeconds > VISIBILITY_WALL_SECONDS) {
    throw new WorkerError(
      "CONFIG_BUDGET",
      `${SETTINGS.runDeadlineSeconds.env} (${config.runDeadlineSeconds} s) + ${SETTINGS.visibilitySeconds.env} (${config.visibilitySeconds} s) ` +
        `exceed ${VISIBILITY_WALL_SECONDS} s, beyond which SQS extends no visibility. Lower the deadline: a run goes on from its checkpoint.`,
    );
  }
  const needed = config.drainSeconds + config.flushSeconds + STOP_MARGIN_SECONDS;
  if (needed <= config.stopGraceSeconds) return;
  throw new WorkerError(
    "CONFIG_BUDGET",
    `${SETTINGS.drainSeconds.env} (${config.drainSeconds} s) + ${SETTINGS.flushSeconds.env} (${config.flushSeconds} s) + ` +
      `${STOP_MARGIN_SECONDS} s margin exceed ${SETTINGS.stopGraceSeconds.env} (${config.stopGraceSeconds} s): the platform would kill ` +
      `a draining worker. Raise the platform's stop grace and this variable, or lower the drain.`,
  );
}
