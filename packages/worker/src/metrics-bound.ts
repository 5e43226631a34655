// A bound on the values of an attribute: metrics keep one series for each, for as long as the process lives.

/** The conventions' value for whatever has no name of its own. */
const OTHER = "_OTHER";
const LENGTH_MAX = 64;

/** @returns a function that lets the first `max` different values pass, and gives `_OTHER` for later ones and for long ones */
export function boundedValues(max: number): (value: string) => string {
  const seen = new Set<string>();
  return (value) => {
    if (seen.has(value)) return value;
    if (value.length > LENGTH_MAX || seen.size >= max) return OTHER;
    seen.add(value);
    return value;
  };
}
