// Which provider ids cannot name a call for the life of a thread: counters, tool names, bare numbers.

const WEAK_SHAPES: readonly RegExp[] = [
  /^\d+$/,
  // call_0, call_0_1, call-3, tool_2: a counter that starts again each turn (A01, A08).
  /^(?:call|tool|fallback|function|fc)[_-]?\d{1,6}(?:[_-]\d{1,6})*$/i,
  // name:3 and functions.name:3 are scoped to one message by several servers (A02, A11).
  /^[\w.-]+:\d+$/,
  // Our own form. Only the boundary writes it, so a provider's id of that shape is given one as well.
  /#\d+$/,
];

export function isWeakId(id: string, tool: string): boolean {
  return id === tool || WEAK_SHAPES.some((shape) => shape.test(id));
}
