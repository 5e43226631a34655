// What makes a definition one that cannot keep its promise: found when the tool is defined, not when it is first called.
import type { Lookup, ToolSpec } from "./dispatch-call.ts";
import { ToolsError } from "./errors.ts";
import type { ProviderProfile } from "./profiles.ts";

export interface CheckedParts extends Pick<ToolSpec, "name" | "effect"> {
  readonly lookup: Lookup | undefined;
  readonly profile: ProviderProfile | undefined;
  readonly timeoutMs: number | undefined;
}

/** Throws INVALID_TOOL. */
export function checkDefinition({ name, effect, lookup, profile, timeoutMs }: CheckedParts): void {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(name)) throw invalidTool(name, "its name must be 1 to 64 of A-Z a-z 0-9 _ -.");
  if (effect === "lookup" && lookup === undefined) throw invalidTool(name, "effect lookup needs a lookup function.");
  if (timeoutMs !== undefined && !(timeoutMs > 0)) throw invalidTool(name, "timeoutMs must be above 0.");
  const keyLength = profile?.format === "uuid" ? 36 : 32;
  const lengthMax = profile?.maxLength ?? "unknown";
  if (lengthMax !== "unknown" && lengthMax < keyLength) {
    throw invalidTool(name, `keys have ${keyLength} characters and the profile takes ${lengthMax}.`);
  }
}

export function invalidTool(name: string, why: string): ToolsError {
  return new ToolsError("INVALID_TOOL", `Tool ${name} cannot be defined: ${why}`);
}
