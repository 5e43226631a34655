// Example 1 - hello, run: an agent without tools, a message that asks for a run, a worker that drives it, the result in its row.
import { defineAgent, toolAgent } from "@reprise/worker";
import { modelFromEnv } from "./support/model-from-env.ts";
import { check, withScene } from "./support/scene.ts";
import { ScriptedModel } from "./support/scripted-model.ts";

// REPRISE_MODEL=anthropic:<model> (and its package and key) puts a real model here.
const { model, name } = await modelFromEnv({
  scripted: () => new ScriptedModel({ turns: [{ text: "Hello from a run that would survive its worker." }] }),
});
const greeter = defineAgent({ name: "greeter", graph: toolAgent({ model, tools: [] }) });

await withScene([greeter], async ({ ask, pool }) => {
  process.stdout.write(`model: ${name}\n`);
  const run = await ask("greeter", "Say hello.");
  process.stdout.write(`${String(run.result)}\n`);
  check(run.status === "finished", "the run's row says finished");
  check(typeof run.result === "string" && run.result !== "", "the row holds the agent's last words");
  const { rows } = await pool.query("select receive_count, cause, outcome from reprise.deliveries");
  check(
    rows.length === 1 && rows[0].cause === "none",
    "one delivery, received once, for no other reason than the message",
  );
});
