// The one place where the examples read the process environment.
import { PRODUCT } from "@reprise/tracing";

/** Names a real chat model as `provider:model`; unset, empty or `scripted` means the scripted model. */
export const MODEL_VARIABLE = `${PRODUCT.environmentPrefix}MODEL`;

/** Where the payment provider of the examples listens. */
export const PAYMENTS_VARIABLE = "PAYMENTS_URL";

export type ExampleEnvironment = {
  /** The raw value of {@link PAYMENTS_VARIABLE}. */
  readonly paymentsUrl: string | undefined;
  /** The raw value of {@link MODEL_VARIABLE}; parsed in model-from-env.ts. */
  readonly model: string | undefined;
};

/** Reads what the examples take from the environment; provider packages read their own API keys themselves. */
export function readExampleEnvironment(source: NodeJS.ProcessEnv = process.env): ExampleEnvironment {
  return { model: source[MODEL_VARIABLE], paymentsUrl: source[PAYMENTS_VARIABLE] };
}

/** Set by the repository's own commands, so that the AWS SDK's word on next year's Node does not hide theirs. */
const SDK_WARNING_VARIABLE = "AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED";

/** What a child process needs of ours to start at all; everything else it is told. */
export function childEnvironment(source: NodeJS.ProcessEnv = process.env): Record<string, string> {
  const kept = ["PATH", "HOME", "TMPDIR", "NODE_OPTIONS", "NODE_EXTRA_CA_CERTS", SDK_WARNING_VARIABLE].flatMap(
    (name) => {
      const value = source[name];
      return value === undefined ? [] : [[name, value] as const];
    },
  );
  return Object.fromEntries(kept);
}

export const MUTATION_VARIABLE = `${PRODUCT.environmentPrefix}HARNESS_MUTATION`;

/** What the kill harness tells its workers beside their configuration. */
export function readHarnessEnvironment(source: NodeJS.ProcessEnv = process.env): {
  readonly mutation: string | undefined;
} {
  return { mutation: source[MUTATION_VARIABLE] };
}
