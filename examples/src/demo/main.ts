// `npm run demo`: one customer action, a worker killed in the middle of it, and what is seen afterwards.
import { parseArgs } from "node:util";
import { collect, verdictOf } from "./evidence.ts";
import { page } from "./print.ts";
import { playStory } from "./story.ts";

const { values } = parseArgs({
  options: { json: { type: "boolean", default: false }, naive: { type: "boolean", default: false } },
});

// With --json the verdict is all there is on standard output; people's lines go beside it.
const say = (text: string): void => void (values.json ? process.stderr : process.stdout).write(`${text}\n`);

const evidence = await playStory({ naive: values.naive, say }, collect);
if (values.json) process.stdout.write(`${JSON.stringify(verdictOf(evidence))}\n`);
else process.stdout.write(`\n${page(evidence, values.naive)}\n`);
