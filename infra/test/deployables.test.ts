// The shipped image, ECS task and Kubernetes Deployment against the worker's own configuration: one number changed alone is red.

import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { readConfig, SETTINGS } from "@reprise/worker";
import { describe, expect, it } from "vitest";
import { STOP_MARGIN_SECONDS } from "../../packages/worker/src/config.ts";
import { execForm, instructionsOf, ofImage, startComplaints } from "./deployables-dockerfile.ts";
import {
  type DeployedContainer,
  ecsContainers,
  ecsTask,
  kubernetesContainers,
  kubernetesDeployment,
  kubernetesObjects,
} from "./deployables-read.ts";
import { ROOT, readText } from "./repository-tree.ts";

const dockerfile = instructionsOf(readText("infra/docker/Dockerfile"));
const containers = [...ecsContainers(), ...kubernetesContainers()];
const workers = containers.filter(({ args }) => args[0] === "work");
const named = (some: readonly DeployedContainer[]) => some.map((container) => [container.where, container] as const);

/** What the image itself sets. */
const imageEnvironment: Readonly<Record<string, string>> = Object.fromEntries(
  (ofImage(dockerfile, "ENV") ?? "").split(/\s+/).map((pair) => pair.split("=") as [string, string]),
);
const environmentOf = (container: DeployedContainer) => ({ ...imageEnvironment, ...container.environment });

it("finds a worker and a migration on each platform", () => {
  expect(containers.map(({ where, args }) => [where, args[0]])).toEqual([
    ["ecs migrate", "migrate"],
    ["ecs worker", "work"],
    ["kubernetes migrate", "migrate"],
    ["kubernetes worker", "work"],
  ]);
});

describe("the environment", () => {
  const known = new Set<string>(Object.values(SETTINGS).map((setting) => setting.env));

  it.each(named(containers))(
    "%s names only settings of the worker, or OpenTelemetry's and AWS's own",
    (_, container) => {
      const names = Object.keys(environmentOf(container)).filter((name) => name !== "NODE_ENV");
      expect(names.filter((name) => !known.has(name) && !/^(OTEL|AWS)_[A-Z_]+$/.test(name))).toEqual([]);
    },
  );

  it.each(named(workers))("D02: %s is accepted by the worker, its shutdown budget included", (_, container) => {
    expect(() => readConfig(environmentOf(container))).not.toThrow();
  });

  it("D02: a drain of 25 s before a stop grace of 10 s would be refused", () => {
    const [worker] = workers;
    const wrong = { ...worker?.environment, REPRISE_DRAIN_SECONDS: "25", REPRISE_STOP_GRACE_SECONDS: "10" };
    expect(() => readConfig(wrong)).toThrow("CONFIG_BUDGET");
  });

  it("both platforms say the same, addresses aside", () => {
    const [ecs, kubernetes] = workers.map(({ environment, stopGraceSeconds }) => ({
      stopGraceSeconds,
      ...Object.fromEntries(Object.entries(environment).filter(([, value]) => /^[\d.]+$/.test(value))),
    }));
    expect(ecs).toEqual(kubernetes);
  });

  it.each(named(workers))("%s gives its pool about two connections a run", (_, container) => {
    const { concurrency, poolMax } = readConfig(environmentOf(container));
    expect(poolMax).toBeGreaterThanOrEqual(2 * concurrency);
  });
});

describe("the stop grace", () => {
  it.each(named(workers))(
    "D02: %s gives drain, flush and margin before SIGKILL, by the worker's own numbers",
    (_, container) => {
      const config = readConfig(environmentOf(container));
      expect(config.stopGraceSeconds).toBe(container.stopGraceSeconds);
      const needed = config.drainSeconds + config.flushSeconds + STOP_MARGIN_SECONDS;
      expect(container.stopGraceSeconds).toBeGreaterThanOrEqual(needed);
    },
  );

  it("D02: ECS allows 120 s at most", () => {
    for (const container of ecsContainers()) expect(container.stopGraceSeconds).toBeLessThanOrEqual(120);
  });
});

it("infra/README.md states the budget as it is, on the platforms and by default", () => {
  const rows = [...readText("infra/README.md").matchAll(/^\| (.*) \| (\d+) \| (\d+) \|$/gm)];
  const said = (start: RegExp) =>
    rows
      .find(([, what = ""]) => start.test(what))
      ?.slice(2)
      .map(Number);
  const { DATABASE_URL = "", QUEUE_URL = "" } = workers[0]?.environment ?? {};
  const defaults = readConfig({ DATABASE_URL, QUEUE_URL });
  for (const container of workers) {
    const shipped = readConfig(environmentOf(container));
    for (const name of ["drainSeconds", "flushSeconds", "stopGraceSeconds"] as const)
      expect(said(new RegExp(SETTINGS[name].env)), name).toEqual([shipped[name], defaults[name]]);
  }
  expect(said(/^margin/)).toEqual([STOP_MARGIN_SECONDS, STOP_MARGIN_SECONDS]);
});

describe("the probes", () => {
  it.each(named(workers))("%s asks the port on which the worker answers, which the image exposes", (_, container) => {
    const { healthPort } = readConfig(environmentOf(container));
    expect(container.probePorts.length).toBeGreaterThan(0);
    for (const port of container.probePorts) expect(port).toBe(healthPort);
    expect(Number(ofImage(dockerfile, "EXPOSE"))).toBe(healthPort);
  });

  it("Kubernetes restarts by /live alone, and paces a deploy by /ready", () => {
    const [worker] = kubernetesDeployment().template.spec.containers;
    expect(worker?.startupProbe?.httpGet.path).toBe("/live");
    expect(worker?.livenessProbe?.httpGet.path).toBe("/live");
    expect(worker?.readinessProbe?.httpGet.path).toBe("/ready");
    // The database may take two seconds of it.
    expect(worker?.readinessProbe?.timeoutSeconds).toBeGreaterThan(2);
  });

  it("the image and ECS run the same check, without a shell and without curl", () => {
    const image = execForm(/CMD (\[.*\])$/.exec(ofImage(dockerfile, "HEALTHCHECK") ?? "")?.[1]);
    const ecs = ecsTask().containerDefinitions.find(({ name }) => name === "worker")?.healthCheck?.command;
    expect(image).toEqual(["node", "/app/healthcheck.mjs", imageEnvironment["REPRISE_HEALTH_PORT"]]);
    expect(ecs).toEqual(["CMD", ...(image ?? [])]);
  });
});

describe("who runs it", () => {
  it("the image's user is a number that is not root, the same everywhere", () => {
    expect(ofImage(dockerfile, "USER")).toBe("65532:65532");
    for (const container of containers) expect(container.user).toBe("65532:65532");
  });

  it.each(named(containers))("%s has a read-only root and no capabilities", (_, container) => {
    expect(container.readOnlyRoot).toBe(true);
    expect(container.droppedCapabilities).toEqual(["ALL"]);
  });

  it("the pod keeps to Kubernetes' restricted profile, and mounts no token", () => {
    const pod = kubernetesDeployment().template.spec;
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: "RuntimeDefault" } },
    });
    for (const container of [...pod.initContainers, ...pod.containers]) {
      expect(container.securityContext.allowPrivilegeEscalation).toBe(false);
      expect(container.securityContext.capabilities.add).toBeUndefined();
      expect(container.resources.limits["memory"]).toMatch(/^\d+(Mi|Gi)$/);
    }
  });

  it("the Deployment selects its own pods, and names a service account that is there", () => {
    const { selector, template } = kubernetesDeployment();
    expect(template.metadata.labels).toEqual(selector.matchLabels);
    const accounts = kubernetesObjects().filter(({ kind }) => kind === "ServiceAccount");
    expect(accounts.map(({ metadata }) => metadata.name)).toEqual([template.spec.serviceAccountName]);
  });

  it("ECS has an init before node, awsvpc, and a worker that waits for its migration", () => {
    const task = ecsTask();
    expect(task.networkMode).toBe("awsvpc");
    for (const container of task.containerDefinitions) expect(container.linuxParameters.initProcessEnabled).toBe(true);
    const [migrate, worker] = task.containerDefinitions;
    expect(migrate?.essential).toBe(false);
    expect(worker?.dependsOn).toEqual([{ containerName: "migrate", condition: "SUCCESS" }]);
    expect(worker?.image).toBe(migrate?.image);
  });
});

describe("the image", () => {
  it("D01: node is PID 1: exec form, no shell, no npm, and SIGTERM as the stop signal", () => {
    expect(startComplaints(dockerfile)).toEqual([]);
  });

  it.each([
    ["FROM node\nCMD npm start", "CMD is in shell form: sh is PID 1"],
    ['FROM node\nCMD ["npm", "start"]', "PID 1 is npm, not node"],
    ['FROM node\nENTRYPOINT ["sh", "-c"]\nCMD ["node cli.js work"]', "PID 1 is sh, not node"],
    ['FROM node\nENTRYPOINT node cli.js\nCMD ["work"]', "ENTRYPOINT is in shell form: sh is PID 1"],
    ['FROM node\nSTOPSIGNAL SIGQUIT\nCMD ["node", "cli.js"]', "STOPSIGNAL is SIGQUIT; the worker drains on SIGTERM"],
  ])("D01: %j would be refused", (text, complaint) => {
    expect(startComplaints(instructionsOf(text))).toEqual([complaint]);
  });

  it("its base images are arguments, and nothing is copied from elsewhere", () => {
    const stages = new Set<string>();
    for (const { name, text } of dockerfile) {
      if (name === "FROM") {
        const [, base = "", as = ""] = /^(\S+) AS (\w+)$/.exec(text) ?? [];
        expect(/^\$\{(BUILD|RUNTIME)_IMAGE\}$/.test(base) || stages.has(base), text).toBe(true);
        stages.add(as);
      }
      const from = /--from=(\S+)/.exec(text)?.[1];
      if (from !== undefined) expect(stages.has(from), text).toBe(true);
    }
    expect(dockerfile.some(({ name }) => name === "ADD")).toBe(false);
  });

  it("installs production dependencies alone into what it ships", () => {
    const installs = dockerfile.filter(({ text }) => text.startsWith("npm ")).map(({ text }) => text);
    expect(installs).toHaveLength(2);
    for (const install of installs) expect(install).toMatch(/^npm ci --ignore-scripts /);
    expect(installs[1]).toContain("--omit=dev");
    const shipped = dockerfile.filter(({ text }) => /^--from=build /.test(text)).map(({ text }) => text);
    for (const text of shipped) expect(text).toMatch(/\/dist packages\/\w+\/dist$/);
  });

  it("copies what exists, every workspace's manifest among it, and what .dockerignore lets through", () => {
    const copied = dockerfile
      .filter(({ name, text }) => name === "COPY" && !text.includes("--from="))
      .flatMap(({ text }) => text.split(/\s+/).slice(0, -1));
    for (const path of copied) expect(() => statSync(join(ROOT, path)), path).not.toThrow();
    // The root's package.json names them; npm ci refuses a lock file whose workspaces are missing.
    const { workspaces } = JSON.parse(readText("package.json")) as { workspaces: readonly string[] };
    expect(copied).toEqual(expect.arrayContaining(workspaces.map((workspace) => `${workspace}/package.json`)));
    const allowed = readText("infra/docker/Dockerfile.dockerignore")
      .split("\n")
      .filter((line) => line.startsWith("!"))
      .map((line) => new RegExp(`^${line.slice(1).replaceAll(".", "\\.").replaceAll("*", "[^/]+")}(/|$)`));
    for (const path of copied)
      expect(
        allowed.some((pattern) => pattern.test(path)),
        path,
      ).toBe(true);
  });

  it("says nothing of this machine", () => {
    for (const folder of ["docker", "ecs", "kubernetes"]) {
      for (const file of readdirSync(join(ROOT, "infra", folder)))
        expect(readText(`infra/${folder}/${file}`)).not.toMatch(/localhost:\d|\/work\/|\.npmrc|registry=/);
    }
  });
});

describe("the queue", () => {
  const attributes = (file: string): Readonly<Record<string, string>> => JSON.parse(readText(`infra/ecs/${file}.json`));

  it("C03: gives a message 50 receives, since deploys burn some, and keeps the dead longer than the living", () => {
    const queue = attributes("queue-attributes");
    const { maxReceiveCount } = JSON.parse(queue["RedrivePolicy"] ?? "{}") as { maxReceiveCount: string };
    expect(Number(maxReceiveCount)).toBe(50);
    const dead = attributes("queue-dead-attributes");
    expect(Number(dead["MessageRetentionPeriod"])).toBeGreaterThan(Number(queue["MessageRetentionPeriod"]));
    for (const one of [queue, dead]) expect(one["SqsManagedSseEnabled"]).toBe("true");
  });

  it("hides and polls as the worker asks anyway", () => {
    const queue = attributes("queue-attributes");
    for (const container of workers) {
      const { visibilitySeconds, waitSeconds } = readConfig(environmentOf(container));
      expect(Number(queue["VisibilityTimeout"])).toBe(visibilitySeconds);
      expect(Number(queue["ReceiveMessageWaitTimeSeconds"])).toBe(waitSeconds);
    }
  });

  it("the task's role may do what the README says, on this queue alone", () => {
    const { Statement } = JSON.parse(readText("infra/ecs/task-role-policy.json")) as {
      Statement: readonly { Effect: string; Action: readonly string[]; Resource: string }[];
    };
    expect(Statement).toHaveLength(1);
    const told = [...(/Its role needs ([^.]*)\./.exec(readText("README.md"))?.[1] ?? "").matchAll(/`(?:sqs:)?(\w+)`/g)];
    expect(Statement[0]?.Action.toSorted()).toEqual(told.map(([, action]) => `sqs:${action}`).toSorted());
    expect(Statement[0]?.Resource).toMatch(/^arn:aws:sqs:[\w-]+:\d{12}:[\w-]+$/);
  });
});
