// Chooses the examples' model: a real one when the environment names it and its package is installed, else the scripted one.
import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { MODEL_VARIABLE, readExampleEnvironment } from "./env.ts";
import { SupportError } from "./errors.ts";

export type ModelChoice =
  | { readonly state: "scripted" }
  | {
      readonly state: "provider";
      readonly provider: string;
      readonly modelName: string;
      readonly package: ProviderPackage;
    }
  | { readonly state: "refused"; readonly message: string };

/** Where a provider's chat model is found. */
export type ProviderPackage = { readonly specifier: string; readonly className: string };

export type ChosenModel = {
  /** `scripted`, or `provider:model` as the environment named it: to be printed, so that nobody takes one for the other. */
  readonly name: string;
  readonly model: BaseChatModel;
};

export type ModelFromEnvOptions = {
  /** Makes the scripted model; called only when it is chosen. */
  readonly scripted: () => BaseChatModel;
  /** Default: the value of REPRISE_MODEL. */
  readonly named?: string;
  /** How a package is loaded; a test injects its own. */
  readonly importPackage?: (specifier: string) => Promise<unknown>;
};

/** The names `initChatModel` of the `langchain` package uses (reference.langchain.com, MODEL_PROVIDER_CONFIG). */
const PROVIDERS: ReadonlyMap<string, ProviderPackage> = new Map([
  ["anthropic", { specifier: "@langchain/anthropic", className: "ChatAnthropic" }],
  ["openai", { specifier: "@langchain/openai", className: "ChatOpenAI" }],
  ["azure_openai", { specifier: "@langchain/openai", className: "AzureChatOpenAI" }],
  ["bedrock", { specifier: "@langchain/aws", className: "ChatBedrockConverse" }],
  ["google-genai", { specifier: "@langchain/google-genai", className: "ChatGoogleGenerativeAI" }],
  ["google-vertexai", { specifier: "@langchain/google-vertexai", className: "ChatVertexAI" }],
  ["mistralai", { specifier: "@langchain/mistralai", className: "ChatMistralAI" }],
  ["groq", { specifier: "@langchain/groq", className: "ChatGroq" }],
  ["ollama", { specifier: "@langchain/ollama", className: "ChatOllama" }],
]);

/**
 * The model the environment names. Throws SupportError MODEL_NAME_INVALID, MODEL_PACKAGE_MISSING (with the line that installs
 * it) or MODEL_PACKAGE_UNUSABLE. API keys are read by the provider's package, from the variables its own page names.
 */
export async function modelFromEnv(options: ModelFromEnvOptions): Promise<ChosenModel> {
  const named = options.named ?? readExampleEnvironment().model;
  const choice = chooseModel(named);
  switch (choice.state) {
    case "scripted":
      return { name: "scripted", model: options.scripted() };
    case "refused":
      throw new SupportError("MODEL_NAME_INVALID", choice.message);
    case "provider": {
      const exports = await load(choice.package, options.importPackage ?? importPackage);
      const model = construct(exports, choice.package, choice.modelName);
      return { name: `${choice.provider}:${choice.modelName}`, model };
    }
    default:
      return neverChoice(choice);
  }
}

/** Reads `provider:model`. The first colon separates: model names of some providers hold more of them. */
export function chooseModel(named: string | undefined): ModelChoice {
  const text = (named ?? "").trim();
  if (text === "" || text === "scripted") return { state: "scripted" };
  const colon = text.indexOf(":");
  const provider = colon === -1 ? text : text.slice(0, colon);
  const modelName = colon === -1 ? "" : text.slice(colon + 1);
  const found = PROVIDERS.get(provider);
  if (found !== undefined && modelName !== "") return { state: "provider", provider, modelName, package: found };
  const wrong =
    found === undefined ? `knows no provider "${provider}"` : `names the provider "${provider}" without a model`;
  return {
    state: "refused",
    message:
      `${MODEL_VARIABLE} ${wrong}: write provider:model, for example anthropic:<model name>, with one of ` +
      `${[...PROVIDERS.keys()].join(", ")}; or unset it for the scripted model`,
  };
}

async function load(
  { specifier }: ProviderPackage,
  importOne: (specifier: string) => Promise<unknown>,
): Promise<unknown> {
  try {
    return await importOne(specifier);
  } catch (cause) {
    if (isMissing(cause, specifier)) {
      const message = `${MODEL_VARIABLE} asks for ${specifier}, which is not installed; run: npm install --no-save ${specifier}`;
      throw new SupportError("MODEL_PACKAGE_MISSING", message, { cause });
    }
    const message = `${specifier} is installed but could not be loaded; see the cause, and reinstall it beside @langchain/core`;
    throw new SupportError("MODEL_PACKAGE_UNUSABLE", message, { cause });
  }
}

function construct(exports: unknown, { specifier, className }: ProviderPackage, modelName: string): BaseChatModel {
  const unusable = (what: string, cause?: unknown): SupportError =>
    new SupportError("MODEL_PACKAGE_UNUSABLE", `${specifier}: ${what}`, { cause });
  const found: unknown = Object.entries(exports ?? {}).find(([name]) => name === className)?.[1];
  if (typeof found !== "function")
    throw unusable(`it exports no ${className}; install a version for @langchain/core 1.x`);
  // Every chat model of LangChain takes its model's name in this one field; the package is not there to be type-checked against.
  const Model = found as new (fields: { readonly model: string }) => unknown;
  let made: unknown;
  try {
    made = new Model({ model: modelName });
  } catch (cause) {
    throw unusable(`${className} refused to start, most often for want of its API key; see the cause`, cause);
  }
  // Two copies of core give two classes: such a model would fail later, inside a run.
  if (made instanceof BaseChatModel) return made;
  throw unusable(
    "it brings its own copy of @langchain/core; install the version that shares ours (npm ls @langchain/core)",
  );
}

/** True when the very package is absent, not something that it wants. */
function isMissing(cause: unknown, specifier: string): boolean {
  if (!(cause instanceof Error) || !("code" in cause)) return false;
  return cause.code === "ERR_MODULE_NOT_FOUND" && cause.message.includes(`'${specifier}'`);
}

/** The specifier is computed, so that neither the compiler nor a bundler asks for packages that only some users have. */
async function importPackage(specifier: string): Promise<unknown> {
  return await import(/* @vite-ignore */ specifier);
}

function neverChoice(choice: never): never {
  throw new TypeError(`unknown model choice: ${JSON.stringify(choice)}`);
}
