// Reads a Dockerfile into its instructions, and says what of its start and its end would keep a signal from the worker.

export interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** Comments and empty lines left out, continued lines joined. Here-documents and parser directives are not used, and not known. */
export function instructionsOf(dockerfile: string): readonly Instruction[] {
  const joined = dockerfile
    .split("\n")
    .filter((line) => !/^\s*(#|$)/.test(line))
    .join("\n")
    .replaceAll(/\\\n\s*/g, " ");
  return joined.split("\n").map((line) => {
    const [, name = "", text = ""] = /^\s*(\w+)\s+(.*)$/.exec(line) ?? [];
    return { name: name.toUpperCase(), text: text.trim() };
  });
}

/** The last of its name in the last stage: what the image has. */
export function ofImage(instructions: readonly Instruction[], name: string): string | undefined {
  const stage = instructions.slice(instructions.findLastIndex((instruction) => instruction.name === "FROM"));
  return stage.findLast((instruction) => instruction.name === name)?.text;
}

/** The words of an instruction in exec form; undefined in shell form. */
export function execForm(text: string | undefined): readonly string[] | undefined {
  if (text === undefined || !text.startsWith("[")) return undefined;
  const words: unknown = JSON.parse(text);
  return Array.isArray(words) && words.every((word): word is string => typeof word === "string") ? words : undefined;
}

/** Case D01: what stands between PID 1 and node. Empty when node itself is PID 1. */
export function startComplaints(instructions: readonly Instruction[]): readonly string[] {
  const complaints: string[] = [];
  const [entrypoint, cmd] = [ofImage(instructions, "ENTRYPOINT"), ofImage(instructions, "CMD")];
  for (const [name, text] of [
    ["ENTRYPOINT", entrypoint],
    ["CMD", cmd],
  ] as const) {
    if (text !== undefined && execForm(text) === undefined) complaints.push(`${name} is in shell form: sh is PID 1`);
  }
  const first = [...(execForm(entrypoint) ?? []), ...(execForm(cmd) ?? [])][0];
  if (complaints.length === 0 && first !== "node") complaints.push(`PID 1 is ${first ?? "nothing"}, not node`);
  const signal = ofImage(instructions, "STOPSIGNAL") ?? "SIGTERM";
  if (signal !== "SIGTERM") complaints.push(`STOPSIGNAL is ${signal}; the worker drains on SIGTERM`);
  return complaints;
}
