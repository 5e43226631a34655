// wrapTool: an existing LangChain tool, with an effect policy around its body.
import type { StructuredToolInterface, ToolRunnableConfig } from "@langchain/core/tools";
import { PRODUCT } from "@reprise/tracing";
import { createEffectTool, type EffectOptions, EffectTool } from "./define-tool.ts";
import { invalidTool } from "./define-tool-check.ts";
import type { ToolContext } from "./dispatch-call.ts";

export interface WrapOptions extends EffectOptions<unknown> {
  /** What makes two calls the same wish, for marking echoes: names of arguments. Default: all arguments. */
  readonly identity?: readonly string[];
}

const CONTEXT_KEY = `__${PRODUCT.name}_tool`;

/**
 * Keeps the tool's name, description, schema and body. The body reaches the key and the counting fetch by `wrappedContext(config)`;
 * a body that uses neither wants `lookup` or `once`, for its provider never sees a key. Throws INVALID_TOOL.
 */
export function wrapTool(existing: StructuredToolInterface, options: WrapOptions): EffectTool {
  const { name, description, schema } = existing;
  if (existing instanceof EffectTool) throw invalidTool(name, "it has an effect policy already.");
  const { identity, ...effect } = options;
  return createEffectTool(effect, {
    name,
    description,
    schema,
    // It parses its arguments itself, as it always did: parsed ones might not fit a schema that transforms.
    takes: "given",
    ...(identity === undefined ? {} : { identity: (args) => fieldsOf(args, identity) }),
    run: (args, context, config) => {
      const configurable = { ...config.configurable, [CONTEXT_KEY]: context };
      // The schema was checked against these very arguments before.
      return existing.invoke(args as never, { ...config, signal: context.signal, configurable });
    },
  });
}

/** In the body of a wrapped tool: its key, signal and counting fetch, from the config that LangChain hands it. */
export function wrappedContext(config: ToolRunnableConfig): ToolContext | undefined {
  // Only wrapTool writes this key.
  return config.configurable?.[CONTEXT_KEY] as ToolContext | undefined;
}

function fieldsOf(args: unknown, names: readonly string[]): unknown {
  if (typeof args !== "object" || args === null) return args;
  const fields = new Map(Object.entries(args));
  return Object.fromEntries(names.map((name) => [name, fields.get(name)]));
}
