// The program that the crash table kills: holds the same charge under every policy.
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { holdTools } from "@reprise/tools/testing";
import { SUBJECTS, toolOf } from "./subjects.ts";

holdTools({
  tools: SUBJECTS.map((subject) => ({
    tool: toolOf(subject),
    args: (mark) => ({ customer: mark, amount_cents: 4900 }),
  })),
  saver: (pool) => new PostgresSaver(pool),
});
