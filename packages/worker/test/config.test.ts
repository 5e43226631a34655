// Proves the configuration: each setting's default, bounds and help, several problems in one message, the shutdown budget.
import { readFileSync } from "node:fs";
import { PRODUCT } from "@reprise/tracing";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Config, type Environment, readConfig, readOne } from "../src/config.ts";
import { SETTINGS, type Setting } from "../src/config-settings.ts";
import { WorkerError } from "../src/errors.ts";

const all = Object.entries<Setting>(SETTINGS);
const REQUIRED = {
  [SETTINGS.databaseUrl.env]: "postgres://app@127.0.0.1:5432/app",
  [SETTINGS.queueUrl.env]: "http://127.0.0.1:9324/000000000000/q",
};

function problem(environment: Environment): WorkerError {
  try {
    readConfig(environment);
  } catch (error) {
    if (error instanceof WorkerError) return error;
    throw error;
  }
  throw new Error("the configuration was accepted");
}

function settingOf(name: string, environment: Environment): unknown {
  const config: Readonly<Record<string, unknown>> = readConfig({ ...REQUIRED, ...environment });
  return config[name];
}

/** A setting's value with whatever else the shutdown budget then needs. */
function roomFor(setting: Setting, value: string): Environment {
  return { [SETTINGS.stopGraceSeconds.env]: "3700", [setting.env]: value };
}

describe("defaults", () => {
  test("an environment with only the two addresses is enough", () => {
    expect(readConfig(REQUIRED)).toEqual({
      databaseUrl: REQUIRED[SETTINGS.databaseUrl.env],
      queueUrl: REQUIRED[SETTINGS.queueUrl.env],
      sqsEndpoint: undefined,
      awsRegion: "us-east-1",
      checkpointSchema: "public",
      replyQueues: undefined,
      concurrency: 10,
      toolsPerRun: 5,
      poolMax: 20,
      visibilitySeconds: 60,
      waitSeconds: 20,
      drainSeconds: 20,
      flushSeconds: 5,
      stopGraceSeconds: 30,
      runDeadlineSeconds: 3600,
      recursionLimit: 50,
      faultLimit: 5,
      sampleShare: 0.05,
      slowSeconds: 60,
      content: "redacted",
      snsEnvelope: "refuse",
      healthPort: 0,
      logLevel: "info",
    } satisfies Config);
  });

  test("the defaults fit before the default SIGKILL, with the margin", () => {
    const { drainSeconds, flushSeconds, stopGraceSeconds } = readConfig(REQUIRED);
    expect(drainSeconds + flushSeconds + 4).toBeLessThanOrEqual(stopGraceSeconds);
  });

  test.each(all)("%s: an empty variable is an unset one", (name, setting) => {
    if ("required" in setting) {
      expect(problem({ ...REQUIRED, [setting.env]: "  " }).code).toBe("CONFIG_MISSING");
    } else {
      expect(settingOf(name, { [setting.env]: " " })).toEqual(settingOf(name, {}));
    }
  });

  test("spaces round a value do not count", () => {
    expect(settingOf("concurrency", { [SETTINGS.concurrency.env]: " 7 \n" })).toBe(7);
  });
});

describe("every setting", () => {
  test.each(all)("%s has a meaning, and an example that is accepted", (name, setting) => {
    expect(setting.meaning.length).toBeGreaterThan(15);
    const given = settingOf(name, { ...roomFor(setting, setting.example) });
    expect(String(given)).toBe(setting.example);
  });

  test.each(all)(
    "%s has a variable of its own, under the product's prefix unless others read it too",
    (_name, setting) => {
      expect(all.filter(([, other]) => other.env === setting.env)).toHaveLength(1);
      const shared = ["DATABASE_URL", "QUEUE_URL", "SQS_ENDPOINT", "AWS_REGION"];
      expect(shared.includes(setting.env) || setting.env.startsWith(PRODUCT.environmentPrefix)).toBe(true);
    },
  );
});

describe("numbers", () => {
  const numbers = all.flatMap(([name, setting]) => (setting.type === "number" ? [[name, setting] as const] : []));

  test.each(numbers)("%s accepts its bounds and refuses what lies beyond them", (name, setting) => {
    const step = setting.integer === false ? 0.001 : 1;
    if (name !== "stopGraceSeconds") expect(settingOf(name, roomFor(setting, String(setting.min)))).toBe(setting.min);
    if (name !== "drainSeconds") expect(settingOf(name, roomFor(setting, String(setting.max)))).toBe(setting.max);
    for (const value of [setting.min - step, setting.max + step]) {
      const error = problem({ ...REQUIRED, ...roomFor(setting, String(value)) });
      expect(error.code).toBe("CONFIG_INVALID");
      expect(error.message).toContain(`${setting.env} is "${value}"`);
      expect(error.message).toContain(`${setting.min} to ${setting.max}`);
      expect(error.message).toContain(setting.unit);
    }
  });

  test.each(numbers)("%s has a default inside its bounds", (_name, setting) => {
    expect(setting.default).toBeGreaterThanOrEqual(setting.min);
    expect(setting.default).toBeLessThanOrEqual(setting.max);
  });

  test.each(["ten", "10s", "NaN", "Infinity", "-1", "1.5", "1,5", "0"])("%s is no number of runs", (text) => {
    expect(problem({ ...REQUIRED, [SETTINGS.concurrency.env]: text }).code).toBe("CONFIG_INVALID");
  });

  test("shares and slow thresholds may have fractions", () => {
    expect(settingOf("sampleShare", { [SETTINGS.sampleShare.env]: "0.25" })).toBe(0.25);
    expect(settingOf("slowSeconds", { [SETTINGS.slowSeconds.env]: "2.5" })).toBe(2.5);
  });

  test("whatever text a variable holds, the answer is a number in bounds or a configuration error", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.double().map(String)), (text) => {
        try {
          const value = readOne("concurrency", { [SETTINGS.concurrency.env]: text });
          expect(Number.isInteger(value) && value >= 1 && value <= 1000).toBe(true);
        } catch (error) {
          expect(error).toMatchObject({ code: "CONFIG_INVALID" });
        }
      }),
    );
  });
});

describe("choices", () => {
  const choices = all.flatMap(([name, setting]) => (setting.type === "choice" ? [[name, setting] as const] : []));

  test.each(choices)("%s takes each of its values and names them when given another", (name, setting) => {
    for (const choice of setting.choices) expect(settingOf(name, { [setting.env]: choice })).toBe(choice);
    const error = problem({ ...REQUIRED, [setting.env]: "perhaps" });
    expect(error.code).toBe("CONFIG_INVALID");
    expect(error.message).toContain(`${setting.env} is "perhaps"`);
    expect(error.message).toContain(setting.choices.join(", "));
  });
});

describe("errors", () => {
  test.each([SETTINGS.databaseUrl, SETTINGS.queueUrl])(
    "a missing $env is named, explained and shown by example",
    (setting) => {
      const error = problem({ ...REQUIRED, [setting.env]: undefined });
      expect(error.code).toBe("CONFIG_MISSING");
      expect(error.message).toContain(`${setting.env} is not set`);
      expect(error.message).toContain(setting.meaning);
      expect(error.message).toContain(`${setting.env}=${setting.example}`);
    },
  );

  test("several problems are one message, a line for each", () => {
    const error = problem({
      [SETTINGS.queueUrl.env]: "http://127.0.0.1:9324/000000000000/q",
      [SETTINGS.concurrency.env]: "0",
      [SETTINGS.content.env]: "all",
    });
    const lines = error.message.split("\n");
    expect(lines).toHaveLength(3);
    for (const setting of [SETTINGS.databaseUrl, SETTINGS.concurrency, SETTINGS.content]) {
      expect(lines.filter((line) => line.includes(`${setting.env}=`))).toHaveLength(1);
    }
    expect(error.code).toBe("CONFIG_MISSING");
  });

  test("the value of DATABASE_URL never stands in a message, whatever else is wrong", () => {
    const error = problem({
      [SETTINGS.databaseUrl.env]: "postgres://app:hunter2@db/app",
      [SETTINGS.concurrency.env]: "0",
    });
    expect(error.message).not.toContain("hunter2");
  });
});

describe("the shutdown budget (D02)", () => {
  const budget = (drain: number, flush: number, grace: number): Environment => ({
    ...REQUIRED,
    [SETTINGS.drainSeconds.env]: String(drain),
    [SETTINGS.flushSeconds.env]: String(flush),
    [SETTINGS.stopGraceSeconds.env]: String(grace),
  });

  test("a drain that cannot end before SIGKILL is refused with the three figures and their names", () => {
    const error = problem(budget(25, 5, 10));
    expect(error.code).toBe("CONFIG_BUDGET");
    for (const setting of [SETTINGS.drainSeconds, SETTINGS.flushSeconds, SETTINGS.stopGraceSeconds])
      expect(error.message).toContain(setting.env);
    for (const figure of ["25 s", "5 s", "10 s", "4 s margin"]) expect(error.message).toContain(figure);
  });

  test("drain, flush and the margin of four seconds may fill the stop grace, and not a second more", () => {
    expect(readConfig(budget(111, 5, 120)).drainSeconds).toBe(111);
    expect(problem(budget(112, 5, 120)).code).toBe("CONFIG_BUDGET");
  });
});

describe("one setting", () => {
  test("is read without the others being there", () => {
    expect(readOne("databaseUrl", { [SETTINGS.databaseUrl.env]: "postgres://x" })).toBe("postgres://x");
    expect(readOne("logLevel", {})).toBe("info");
  });

  test("has the same errors as the whole", () => {
    expect(() => readOne("queueUrl", {})).toThrow(expect.objectContaining({ code: "CONFIG_MISSING" }));
    expect(() => readOne("waitSeconds", { [SETTINGS.waitSeconds.env]: "21" })).toThrow(
      expect.objectContaining({ code: "CONFIG_INVALID" }),
    );
  });
});

describe("the README", () => {
  const readme = (): string => readFileSync(new URL("../README.md", import.meta.url), "utf8");

  test("has one row for each setting, with its default", () => {
    const rows = readme()
      .split("\n")
      .filter((line) => line.startsWith("|"));
    const wrong = all.filter(([, setting]) => {
      const own = rows.filter((row) => row.includes(`\`${setting.env}\``));
      return own.length !== 1 || (setting.default !== undefined && !own[0]?.includes(String(setting.default)));
    });
    expect(wrong.map(([, setting]) => setting.env)).toEqual([]);
  });

  test("names no variable under the product's prefix that the worker does not read", () => {
    const named = readme().match(new RegExp(`\\b${PRODUCT.environmentPrefix}[A-Z_]+`, "g")) ?? [];
    const read = new Set(all.map(([, setting]) => setting.env));
    expect([...new Set(named)].filter((name) => !read.has(name))).toEqual([]);
  });
});
