// The redacted tree of a value, and how it is written as JSON.

import { MASK } from "./gate-text.ts";

export type GateNode =
  /** A string, also as JSON writes it: it is written up to six times. `omitted` counts characters the window left out. */
  | { readonly kind: "text"; readonly text: string; readonly json: string; readonly omitted: number }
  /** A number, true, false or null, as JSON writes it. */
  | { readonly kind: "raw"; readonly text: string }
  | { readonly kind: "list"; readonly items: readonly GateNode[]; readonly omitted: number }
  /**
   * Names and not an object: `__proto__` is a name like any other, and names that become equal when masked both stay.
   * A name stands as JSON writes it, with its colon.
   */
  | {
      readonly kind: "map";
      readonly names: readonly string[];
      readonly items: readonly GateNode[];
      readonly omitted: number;
    };

export type TextNode = Extract<GateNode, { readonly kind: "text" }>;

/** What stands for a secret. */
export const MASKED: TextNode = { kind: "text", text: MASK, json: JSON.stringify(MASK), omitted: 0 };

export function textNode(text: string): TextNode {
  return { kind: "text", text, json: JSON.stringify(text), omitted: 0 };
}

/** The whole tree as compact JSON, uncut. */
export function writeJson(node: GateNode): string {
  switch (node.kind) {
    case "text":
      return node.json;
    case "raw":
      return node.text;
    case "list": {
      let out = "[";
      for (const item of node.items) out += out === "[" ? writeJson(item) : `,${writeJson(item)}`;
      return `${out}]`;
    }
    case "map": {
      let out = "{";
      for (const [at, item] of node.items.entries())
        out += at === 0 ? `${node.names[at]}${writeJson(item)}` : `,${node.names[at]}${writeJson(item)}`;
      return `${out}}`;
    }
    default: {
      const never: never = node;
      return never;
    }
  }
}
