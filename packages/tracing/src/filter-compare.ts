// Compares one attribute value with one literal of a filter, forgiving about types: SQS and OTLP both turn numbers into strings.

export type Operator = "=" | "!=" | ">" | ">=" | "<" | "<=";

export interface Literal {
  readonly text: string;
  /** Present when the literal was written as a bare number. */
  readonly number?: number;
}

export interface Condition {
  readonly operator: Operator;
  readonly literal: Literal;
}

/** An array matches when any of its elements does. What is absent, null or an object matches nothing, not even `!=`. */
export function compare(value: unknown, condition: Condition): boolean {
  if (Array.isArray(value)) return value.some((element: unknown) => compare(element, condition));
  if (typeof value === "string") return compareString(value, condition);
  if (typeof value === "number" || typeof value === "bigint") {
    const { number } = condition.literal;
    return number === undefined
      ? sameText(String(value), condition)
      : ordered(Number(value) - number, condition.operator);
  }
  if (typeof value === "boolean") return sameText(String(value), condition);
  return false;
}

function compareString(value: string, condition: Condition): boolean {
  const { literal, operator } = condition;
  // A run id of digits equals itself as text, also past 2^53; only order is numeric.
  if (operator === "=" || operator === "!=") return sameText(value, condition);
  if (literal.number === undefined) return ordered(value < literal.text ? -1 : value > literal.text ? 1 : 0, operator);
  return value.trim() !== "" && ordered(Number(value) - literal.number, operator);
}

function sameText(value: string, { operator, literal }: Condition): boolean {
  if (operator === "=") return value === literal.text;
  return operator === "!=" && value !== literal.text;
}

/** NaN, from a string that is no number, orders as nothing. */
function ordered(difference: number, operator: Operator): boolean {
  switch (operator) {
    case "=":
      return difference === 0;
    case "!=":
      return difference !== 0;
    case ">":
      return difference > 0;
    case ">=":
      return difference >= 0;
    case "<":
      return difference < 0;
    case "<=":
      return difference <= 0;
    default: {
      const never: never = operator;
      return never;
    }
  }
}
