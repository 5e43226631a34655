// withReprise: the model boundary as the first middleware of createAgent. Typed by shape, so that `langchain` is no dependency.
import { AIMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages";
import { isControlFlow, PRODUCT } from "@reprise/tracing";
import { EffectTool, toolsOf } from "../define-tool.ts";
import { ToolsError } from "../errors.ts";
import { restoreProviderIds, stampCalls } from "./boundary.ts";

/** What the boundary takes from langchain's ModelRequest. */
export interface ModelRequestLike {
  readonly messages: BaseMessage[];
}

/** What it takes from langchain's ToolCallRequest. */
export interface ToolRequestLike {
  readonly toolCall: { readonly id?: string | undefined; readonly name: string };
  readonly tool?: unknown;
}

/** A middleware as langchain's `createMiddleware` makes it, in the fields that the boundary needs. */
export interface ModelBoundary {
  readonly name: string;
  wrapModelCall<Request extends ModelRequestLike, Answer>(
    request: Request,
    handler: (request: Request) => Answer | Promise<Answer>,
  ): Promise<Answer>;
  wrapToolCall<Request extends ToolRequestLike, Answer>(
    request: Request,
    handler: (request: Request) => Answer | Promise<Answer>,
  ): Promise<Answer | ToolMessage>;
}

export interface ModelBoundaryOptions {
  /** What langchain does with an error of a tool of yours: `told` to the model where no middleware wraps tools, else `thrown`. */
  readonly otherErrors: "told" | "thrown";
}

/**
 * Around the model: it sees its own call ids, and the state gets ids that are unique on the thread, fixed before the model node
 * returns, so that they are inside the stored writes (A13). Around the tools: what must stop the run (FENCE_LOST,
 * RUN_ABORTED, a refused call) stops it; langchain's tool node alone would tell it to the model as the model's mistake.
 * It must be outermost: only there it sees the message that is stored.
 */
export function modelBoundary(options: ModelBoundaryOptions): ModelBoundary {
  return {
    name: `${PRODUCT.name}_model_boundary`,
    wrapModelCall: async (request, handler) => {
      const answer = await handler({ ...request, messages: restoreProviderIds(request.messages) });
      // A Command or a structured response holds no call that would be run.
      if (!AIMessage.isInstance(answer)) return answer;
      // An AIMessage in, an AIMessage out: the type parameter cannot say so.
      return stampCalls(answer, request.messages) as typeof answer;
    },
    wrapToolCall: async (request, handler) => {
      try {
        return await handler(request);
      } catch (error) {
        // A tool of ours tells its own failures; what it throws, a ledger that is away too, stops the run.
        const isOurs = request.tool instanceof EffectTool;
        if (isOurs || options.otherErrors === "thrown" || mustBeThrown(error)) throw error;
        const { id, name } = request.toolCall;
        return new ToolMessage({ content: String(error), tool_call_id: id ?? "", name, status: "error" });
      }
    },
  };
}

// A ToolsError of somebody else's tool comes from a subagent in it. A call whose arguments did not fit is told by the tool node
// itself, also when it comes through a middleware.
function mustBeThrown(error: unknown): boolean {
  const isBadArguments = error instanceof Error && "~brand" in error && error["~brand"] === "ToolInvocationError";
  return error instanceof ToolsError || isControlFlow(error) || isBadArguments;
}

export interface WithRepriseParts<Tools extends readonly unknown[], Middleware extends readonly unknown[]> {
  /** Companions (`get_<name>_status`) are added. */
  readonly tools: Tools;
  /** Yours, in your order; the first is the outermost. */
  readonly middleware?: Middleware;
}

export interface WithReprise<Tool, Middleware> {
  readonly tools: (Tool | EffectTool)[];
  /** Yours behind the boundary. By its type only yours: the boundary adds no state, no context and no tools. */
  readonly middleware: Middleware;
}

/**
 * `createAgent({ model, ...withReprise({ tools, middleware }), checkpointer })`. Retry middleware stays outside of the tools:
 * they dispatch themselves, so a tool's own failure never reaches it.
 */
export function withReprise<
  const Tools extends readonly unknown[],
  const Middleware extends readonly unknown[] = readonly [],
>(parts: WithRepriseParts<Tools, Middleware>): WithReprise<NoInfer<Tools>[number], NoInfer<Middleware>> {
  const tools = parts.tools.flatMap((tool): readonly (Tools[number] | EffectTool)[] =>
    tool instanceof EffectTool ? toolsOf(tool) : [tool],
  );
  const others: readonly unknown[] = parts.middleware ?? [];
  const otherErrors = others.some(wrapsTools) ? "thrown" : "told";
  const middleware: readonly unknown[] = [modelBoundary({ otherErrors }), ...others];
  // createAgent infers state, context and tools from this type, to which the boundary adds nothing.
  return { tools: [...new Set(tools)], middleware: middleware as unknown as Middleware };
}

function wrapsTools(middleware: unknown): boolean {
  if (typeof middleware !== "object" || middleware === null) return false;
  return "wrapToolCall" in middleware && middleware.wrapToolCall !== undefined;
}
