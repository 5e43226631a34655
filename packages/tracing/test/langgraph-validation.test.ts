// The published checkpoint saver suite, whole, over TracedSaver around the memory saver.

import { MemorySaver } from "@langchain/langgraph-checkpoint";
import { validate } from "@langchain/langgraph-checkpoint-validation";
import { countingSerde, TracedSaver } from "../src/langgraph/index.ts";

for (const uniqueVersions of [true, false]) {
  validate({
    checkpointerName: `TracedSaver(MemorySaver), uniqueVersions ${uniqueVersions}`,
    createCheckpointer: () => new TracedSaver(new MemorySaver(countingSerde()), { uniqueVersions }),
  });
}
