// What the terminal's environment says about output. Configuration of the worker is in config.ts.

/** https://no-color.org: set and not empty means no colour, whatever its value; a dumb terminal shows none anyway. */
export function wantsNoColour(environment: Readonly<Record<string, string | undefined>> = process.env): boolean {
  return (environment["NO_COLOR"] ?? "") !== "" || environment["TERM"] === "dumb";
}
