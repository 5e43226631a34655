// The published checkpoint saver suite, whole, over TracedSaver around the memory saver.

import { MemorySaver } from "@langchain/langgraph-checkpoint";
import { validate } from "@langchain/langgraph-checkpoint-validation";
import { describe } from "vitest";
import { countingSerde, TracedSaver } from "../src/langgraph/index.ts";

describe.each([true, false])("TracedSaver over the memory saver, uniqueVersions %s", (uniqueVersions) => {
  validate({
    // The suite knows by this name which of its tests the memory saver itself cannot pass (one of 718).
    checkpointerName: "MemorySaver",
    createCheckpointer: () => new TracedSaver(new MemorySaver(countingSerde()), { uniqueVersions }),
  });
});
