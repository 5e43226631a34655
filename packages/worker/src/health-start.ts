// Puts the probes of one worker together: what is watched, what is decided from it, and where it is asked for.
import type pg from "pg";
import type { Config } from "./config.ts";
import { decideLive, decideReady } from "./health.ts";
import { DatabaseProbe } from "./health-database.ts";
import type { LeaseWatch } from "./health-leases.ts";
import { LoopLag } from "./health-loop.ts";
import { startHealthServer } from "./health-server.ts";
import type { PollState } from "./intake-poll.ts";
import type { Clock } from "./lease.ts";

export interface HealthOptions {
  readonly config: Pick<Config, "healthPort" | "waitSeconds">;
  readonly clock: Clock;
  readonly pool: Pick<pg.Pool, "query">;
  readonly leases: LeaseWatch;
  readonly poll: () => PollState;
}

export interface WorkerHealth {
  /** Where the probes are answered; undefined when the configuration says 0. */
  readonly port: number | undefined;
  /** From now on not ready: SIGTERM. */
  drain(): void;
  close(): Promise<void>;
}

/** @throws WorkerError HEALTH_PORT_UNAVAILABLE */
export async function startHealth(options: HealthOptions): Promise<WorkerHealth> {
  const { config, clock, pool, leases, poll } = options;
  if (config.healthPort === 0) return { port: undefined, drain: () => {}, close: () => Promise.resolve() };
  const waitMs = config.waitSeconds * 1000;
  const loop = new LoopLag(clock);
  const database = new DatabaseProbe({ ping: () => pool.query("select 1"), clock });
  let draining = false;
  const seen = () => ({ nowMs: clock.now(), draining, poll: poll() });
  const server = await startHealthServer({
    port: config.healthPort,
    live: () => {
      const now = seen();
      const evidence = { ...now, loopLagMs: loop.worstMs(), leaseOverdueMs: leases.overdueMs(now.nowMs) };
      return decideLive(evidence, waitMs);
    },
    ready: async () => {
      const state = await database.check();
      return decideReady({ ...seen(), database: state }, waitMs);
    },
  });
  return {
    port: server.port,
    drain: () => {
      draining = true;
    },
    close: async () => {
      loop.stop();
      await server.close();
    },
  };
}
