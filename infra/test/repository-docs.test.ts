// The documents against the code: every span, attribute and event name they mention exists, every code of the worker is explained.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { ATTR, EVENT, SPAN } from "@reprise/tracing";
import { expect, it } from "vitest";
import { ROOT, readText, textFiles } from "./repository-tree.ts";

const documents = textFiles().filter((path) =>
  /^((README|ARCHITECTURE)|(packages|infra|examples)\/(.*\/)?\w+)\.md$/.test(path),
);

const NAMES = new Set<string>(
  [...Object.values(SPAN), ...Object.values(ATTR), ...Object.values(EVENT)].flatMap((name) =>
    typeof name === "string" ? [name] : [],
  ),
);

/** Names of ours in inline code; a call (`tool.invoke(...)`) or a file (`agent.ts`) is none. TraceQL puts `span.` before them. */
function namesIn(markdown: string): readonly string[] {
  const prose = markdown.replaceAll(/^ *```[\s\S]*?^ *```/gm, "");
  return [...prose.matchAll(/`([^`\n]+)`/g)].flatMap(([, code = ""]) =>
    [
      ...code.matchAll(
        /(?<![\w./-])(?:span\.)?((?:agent|tool|checkpoint|sampling)\.(?!(?:ts|js|mjs|md|json)\b)[a-z_]+)(?![\w(.])/g,
      ),
    ].map(([, name = ""]) => name),
  );
}

it("finds the names in a text, and only names", () => {
  const text = [
    "On the root: `agent.receive_count` (int), or `{ span.tool.made_up > 1 }`; `lease.lost`.",
    "Not `tool.invoke(args)`, `./agent.js`, `agent.ts`, `my.agent.name`, agent.run_id without ticks.",
    "```ts\nconst a = agent.something;\n```",
  ].join("\n");
  expect(namesIn(text)).toEqual(["agent.receive_count", "tool.made_up"]);
});

it("reads the documents of the packages", () => {
  expect(documents).toEqual(expect.arrayContaining(["packages/tracing/README.md", "packages/tools/README.md"]));
});

it.each(documents)("%s mentions no span, attribute or event that does not exist", (path) => {
  expect(namesIn(readText(path)).filter((name) => !NAMES.has(name))).toEqual([]);
});

const links = (markdown: string): readonly string[] =>
  [...markdown.replaceAll(/^ *```[\s\S]*?^ *```/gm, "").matchAll(/\]\(([^)#\s]+)[^)]*\)/g)].map(
    ([, target = ""]) => target,
  );

it.each(documents)("%s links to files that exist", (path) => {
  const local = links(readText(path)).filter((target) => !/^\w+:/.test(target));
  expect(local.filter((target) => !existsSync(join(ROOT, path, "..", target)))).toEqual([]);
});

it("explains every error of the worker below Errors in its README, and no other", () => {
  // Refusals have a table of their own, which packages/worker/test/errors.test.ts checks; the other packages check theirs.
  const codes = [...readText("packages/worker/src/errors.ts").matchAll(/^ {2}\| "([A-Z_]+)"/gm)].map(
    ([, code]) => code,
  );
  const section =
    readText("packages/worker/README.md")
      .split(/^## Errors$/m)[1]
      ?.split(/^## /m)[0] ?? "";
  const firstCells = [...section.matchAll(/^\|([^|]*)\|/gm)].map(([, cell = ""]) => cell);
  const rows = firstCells.flatMap((cell) => [...cell.matchAll(/`([A-Z_]+)`/g)].map(([, code]) => code));
  expect(codes.length).toBeGreaterThan(5);
  expect(rows.toSorted()).toEqual(codes.toSorted());
});
