// The published checkpoint saver suite, whole, over TracedSaver around PostgresSaver: one database a checkpointer.

import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { validate } from "@langchain/langgraph-checkpoint-validation";
import { createDatabase, openPool } from "@reprise/dev-stack";
import { describe, inject } from "vitest";
import { countingSerde, TracedSaver } from "../src/langgraph/index.ts";

describe.each([true, false])("TracedSaver over PostgresSaver, uniqueVersions %s", (uniqueVersions) => {
  const release = new Map<TracedSaver, () => Promise<void>>();
  validate({
    checkpointerName: "@langchain/langgraph-checkpoint-postgres",
    async createCheckpointer() {
      const database = await createDatabase(inject("databaseUrl"));
      const pool = openPool(database.url, { max: 4 });
      // end() resolves before the server has closed every session, and dropping the database ends the rest.
      pool.on("error", () => undefined);
      const saver = new TracedSaver(new PostgresSaver(pool, countingSerde()), { uniqueVersions });
      await saver.setup();
      release.set(saver, async () => {
        await pool.end();
        await database.drop();
      });
      return saver;
    },
    async destroyCheckpointer(saver) {
      await release.get(saver)?.();
      release.delete(saver);
    },
  });
});
