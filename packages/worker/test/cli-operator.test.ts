// The operator's commands and the README that lists them: neither has one that the other lacks.
import { readFileSync } from "node:fs";
import { Command } from "commander";
import { expect, it } from "vitest";
import { addOperatorCommands } from "../src/cli-operator.ts";

function section(): readonly string[] {
  const lines = readFileSync(new URL("../README.md", import.meta.url), "utf8").split("\n");
  const start = lines.indexOf("## Operating");
  const end = lines.findIndex((line, at) => at > start && line.startsWith("## "));
  return lines.slice(start, end).filter((line) => line.startsWith("| `reprise "));
}

const root = new Command();
addOperatorCommands(root);

it("lists each command in the README, and no other", () => {
  const named = section().map((line) => /^\| `reprise (\w+)/.exec(line)?.[1]);
  expect(named.toSorted()).toEqual(root.commands.map((command) => command.name()).toSorted());
});

it("names only options that the command has", () => {
  for (const line of section()) {
    const command = root.commands.find((one) => line.startsWith(`| \`reprise ${one.name()} `));
    const cell = line.split(/(?<!\\)\|/)[1] ?? "";
    const options = [...cell.matchAll(/--[a-z-]+/g)].map(([option]) => option);
    for (const option of options)
      expect(
        command?.options.map((one) => one.long),
        line,
      ).toContain(option);
  }
});

it("gives each command --json", () => {
  for (const command of root.commands)
    expect(
      command.options.map((one) => one.long),
      command.name(),
    ).toContain("--json");
});
