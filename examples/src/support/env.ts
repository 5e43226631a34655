// The one place where the examples read the process environment.

/** Names a real chat model as `provider:model`; unset, empty or `scripted` means the scripted model. */
export const MODEL_VARIABLE = "REPRISE_MODEL";

export type ExampleEnvironment = {
  /** The raw value of {@link MODEL_VARIABLE}; parsed in model-from-env.ts. */
  readonly model: string | undefined;
};

/** Reads what the examples take from the environment; provider packages read their own API keys themselves. */
export function readExampleEnvironment(source: NodeJS.ProcessEnv = process.env): ExampleEnvironment {
  return { model: source[MODEL_VARIABLE] };
}
