// The shipped deployables as data: what each container runs as, with which environment, probes and stop grace.

import { SETTINGS } from "@reprise/worker";
import { parseAllDocuments } from "yaml";
import { readText } from "./repository-tree.ts";

/** What ECS and Kubernetes both say of one container. */
export interface DeployedContainer {
  readonly where: string;
  readonly user: string;
  readonly readOnlyRoot: boolean;
  readonly droppedCapabilities: readonly string[];
  readonly args: readonly string[];
  /** Values as the container sees them; those from secrets are placeholders that a worker would accept. */
  readonly environment: Readonly<Record<string, string>>;
  readonly stopGraceSeconds: number;
  /** Ports that probes ask. */
  readonly probePorts: readonly number[];
}

/** A value a platform puts in from a secret store. */
const FROM_SECRET: Readonly<Record<string, string>> = {
  [SETTINGS.databaseUrl.env]: SETTINGS.databaseUrl.example,
};

function secretValue(name: string): string {
  const value = FROM_SECRET[name];
  if (value === undefined) throw new Error(`${name} comes from a secret, but is none`);
  return value;
}

interface EcsContainer {
  readonly name: string;
  readonly image: string;
  readonly essential: boolean;
  readonly command: readonly string[];
  readonly dependsOn?: readonly { readonly containerName: string; readonly condition: string }[];
  readonly user: string;
  readonly readonlyRootFilesystem: boolean;
  readonly linuxParameters: {
    readonly initProcessEnabled: boolean;
    readonly capabilities: { readonly drop: readonly string[] };
  };
  readonly stopTimeout?: number;
  readonly healthCheck?: { readonly command: readonly string[]; readonly timeout: number };
  readonly environment?: readonly { readonly name: string; readonly value: string }[];
  readonly secrets?: readonly { readonly name: string; readonly valueFrom: string }[];
}

export interface EcsTask {
  readonly networkMode: string;
  readonly containerDefinitions: readonly EcsContainer[];
}

/** ECS's own, when a task definition says nothing. */
const ECS_STOP_SECONDS = 30;

export function ecsTask(): EcsTask {
  // RegisterTaskDefinition's input; each test looks at the fields it needs.
  return JSON.parse(readText("infra/ecs/task-definition.json")) as EcsTask;
}

export function ecsContainers(): readonly DeployedContainer[] {
  return ecsTask().containerDefinitions.map((container) => ({
    where: `ecs ${container.name}`,
    user: container.user,
    readOnlyRoot: container.readonlyRootFilesystem,
    droppedCapabilities: container.linuxParameters.capabilities.drop,
    args: container.command,
    environment: Object.fromEntries([
      ...(container.environment ?? []).map(({ name, value }) => [name, value]),
      ...(container.secrets ?? []).map(({ name }) => [name, secretValue(name)]),
    ]),
    stopGraceSeconds: container.stopTimeout ?? ECS_STOP_SECONDS,
    probePorts: container.healthCheck === undefined ? [] : [Number(container.healthCheck.command.at(-1))],
  }));
}

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string | number };
  readonly timeoutSeconds?: number;
}

export interface KubernetesContainer {
  readonly name: string;
  readonly args: readonly string[];
  readonly envFrom?: readonly { readonly configMapRef: { readonly name: string } }[];
  readonly env?: readonly {
    readonly name: string;
    readonly value?: string;
    readonly valueFrom?: { readonly secretKeyRef: { readonly name: string; readonly key: string } };
  }[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly startupProbe?: Probe;
  readonly livenessProbe?: Probe;
  readonly readinessProbe?: Probe;
  readonly securityContext: {
    readonly allowPrivilegeEscalation: boolean;
    readonly readOnlyRootFilesystem: boolean;
    readonly capabilities: { readonly drop: readonly string[]; readonly add?: readonly string[] };
  };
  readonly resources: { readonly requests: object; readonly limits: Readonly<Record<string, string>> };
}

export interface KubernetesPod {
  readonly serviceAccountName: string;
  readonly automountServiceAccountToken: boolean;
  readonly terminationGracePeriodSeconds?: number;
  readonly securityContext: {
    readonly runAsNonRoot: boolean;
    readonly runAsUser: number;
    readonly runAsGroup: number;
    readonly seccompProfile: { readonly type: string };
  };
  readonly initContainers: readonly KubernetesContainer[];
  readonly containers: readonly KubernetesContainer[];
}

interface KubernetesObject {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, unknown>>;
  readonly spec?: {
    readonly selector: { readonly matchLabels: object };
    readonly template: { readonly metadata: { readonly labels: object }; readonly spec: KubernetesPod };
  };
}

export function kubernetesObjects(): readonly KubernetesObject[] {
  return parseAllDocuments(readText("infra/kubernetes/deployment.yaml")).map((document) => {
    const [error] = document.errors;
    if (error !== undefined) throw error;
    // Kubernetes' own shapes; each test looks at the fields it needs.
    return document.toJS() as KubernetesObject;
  });
}

export function kubernetesDeployment(): NonNullable<KubernetesObject["spec"]> {
  const spec = kubernetesObjects().find(({ kind }) => kind === "Deployment")?.spec;
  if (spec === undefined) throw new Error("there is no Deployment");
  return spec;
}

/** Kubernetes' own, when a pod says nothing. */
const KUBERNETES_GRACE_SECONDS = 30;

export function kubernetesContainers(): readonly DeployedContainer[] {
  const pod = kubernetesDeployment().template.spec;
  return [...pod.initContainers, ...pod.containers].map((container) => ({
    where: `kubernetes ${container.name}`,
    user: `${pod.securityContext.runAsUser}:${pod.securityContext.runAsGroup}`,
    readOnlyRoot: container.securityContext.readOnlyRootFilesystem,
    droppedCapabilities: container.securityContext.capabilities.drop,
    args: container.args,
    environment: kubernetesEnvironment(container),
    stopGraceSeconds: pod.terminationGracePeriodSeconds ?? KUBERNETES_GRACE_SECONDS,
    probePorts: [container.startupProbe, container.livenessProbe, container.readinessProbe].flatMap((probe) => {
      if (probe === undefined) return [];
      const { port } = probe.httpGet;
      return [typeof port === "number" ? port : portNamed(container, port)];
    }),
  }));
}

function portNamed(container: KubernetesContainer, name: string): number {
  return container.ports?.find((port) => port.name === name)?.containerPort ?? Number.NaN;
}

function kubernetesEnvironment(container: KubernetesContainer): Readonly<Record<string, string>> {
  const fromMaps = (container.envFrom ?? []).flatMap(({ configMapRef }) => {
    const map = kubernetesObjects().find(
      ({ kind, metadata }) => kind === "ConfigMap" && metadata.name === configMapRef.name,
    );
    if (map?.data === undefined) throw new Error(`there is no ConfigMap ${configMapRef.name}`);
    return Object.entries(map.data).map(([name, value]) => {
      // The API refuses numbers and booleans here.
      if (typeof value !== "string") throw new Error(`${name} in the ConfigMap is no string: quote it`);
      return [name, value];
    });
  });
  const own = (container.env ?? []).map(({ name, value }) => [name, value ?? secretValue(name)]);
  return Object.fromEntries([...fromMaps, ...own]);
}
