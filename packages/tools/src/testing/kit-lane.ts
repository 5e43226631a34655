// One lane of the kit: a gateway and a few holders; strikes one of them at a point and lets another finish its call.
import type { EffectState, Ledger } from "../effect.ts";
import { ToolsError } from "../errors.ts";
import { deriveKey, keyUuid } from "../key.ts";
import type { CountedProvider } from "./counting-provider.ts";
import type { Delivery, DeliveryEnd } from "./holder-messages.ts";
import type { Gateway } from "./kit-gateway.ts";
import { HolderProcess, type HolderProgram } from "./kit-process.ts";
import type { Point, Strike } from "./points.ts";

export interface LaneParts {
  readonly program: HolderProgram;
  readonly databaseUrl: string;
  readonly ledger: Ledger;
  readonly provider: CountedProvider;
  readonly gateway: Gateway;
  readonly leaseMs: number;
}

export interface Play {
  /** Name of the tool that is called. */
  readonly tool: string;
  readonly point: Point;
  readonly strike: Strike;
  /** Unique; names the thread and stands in the tool's arguments. */
  readonly mark: string;
  /** 0 to 1: where inside the lease the second delivery begins. */
  readonly moment: number;
  readonly retentionMs?: number;
}

/** What became of one call whose holder was struck, after two more deliveries. */
export interface Played {
  readonly tool: string;
  readonly point: Point;
  readonly strike: Strike;
  /** By the provider's own count. */
  readonly executions: number;
  /** What the model read from the delivery that took over. */
  readonly told: DeliveryEnd["told"] | "nothing";
  /** The ledger's row in the end. */
  readonly row: EffectState | "absent";
  /** How many requests for it the provider saw, and how many of them under the call's own key. */
  readonly requests: number;
  readonly keyed: number;
  readonly error?: string;
}

export class Lane {
  readonly #parts: LaneParts;
  readonly #idle: HolderProcess[] = [];
  readonly #all = new Set<HolderProcess>();
  /** Loads while others play: starting Node is the slowest part of a play. */
  #spare: Promise<HolderProcess> | undefined;

  constructor(parts: LaneParts) {
    this.#parts = parts;
  }

  async play(play: Play): Promise<Played> {
    const { leaseMs } = this.#parts;
    const victim = await this.#take();
    const second = await this.#take();
    this.#spare ??= this.#load();
    // Whoever takes it sees its failure; at the end of the plays nobody does.
    this.#spare.catch(() => undefined);
    const { tool, mark, retentionMs } = play;
    const delivery = { tool, mark, leaseMs, ...(retentionMs === undefined ? {} : { retentionMs }) };
    await this.#struck(victim, play, delivery);
    await pause(play.moment * 0.8 * leaseMs);
    second.start(delivery);
    const end = await second.ended();
    if (play.strike === "SIGSTOP") await this.#thaw(victim);
    second.start(delivery);
    const last = await second.ended();
    this.#idle.push(second);
    return this.#played(play, end.told === undefined ? { ...end, ...last } : end);
  }

  stop(): void {
    for (const holder of this.#all) holder.kill();
  }

  async #struck(victim: HolderProcess, play: Play, delivery: Delivery): Promise<void> {
    const { point, strike } = play;
    if (point !== "after_commit") {
      victim.start({ ...delivery, stopAt: point });
      await victim.atPoint();
      await victim.strike(strike);
    } else {
      // The provider knows when it has committed, whatever client the tool uses.
      const struck = new Promise<void>((resolve, reject) => {
        this.#parts.gateway.holdNext(() => victim.strike(strike).then(resolve, reject));
      });
      victim.start(delivery);
      await Promise.race([struck, endedEarly(victim)]);
    }
    if (strike === "SIGKILL") this.#all.delete(victim);
  }

  async #thaw(victim: HolderProcess): Promise<void> {
    victim.thaw();
    await victim.ended();
    this.#idle.push(victim);
  }

  async #played(play: Play, end: DeliveryEnd): Promise<Played> {
    const { ledger, provider } = this.#parts;
    const { tool, mark, point, strike } = play;
    const key = end.callId === undefined ? undefined : deriveKey(mark, end.callId);
    const row = key === undefined ? undefined : await ledger.find(key);
    const requests = await provider.requests(mark);
    const keyed = key === undefined ? [] : requests.filter((text) => text.includes(key) || text.includes(keyUuid(key)));
    return {
      tool,
      point,
      strike,
      executions: await provider.executions(mark),
      told: end.told ?? "nothing",
      row: row?.state ?? "absent",
      requests: requests.length,
      keyed: keyed.length,
      ...(end.error === undefined ? {} : { error: end.error }),
    };
  }

  async #take(): Promise<HolderProcess> {
    const idle = this.#idle.pop();
    if (idle !== undefined) return idle;
    const spare = this.#spare ?? this.#load();
    this.#spare = undefined;
    return spare;
  }

  async #load(): Promise<HolderProcess> {
    const holder = new HolderProcess(this.#parts.program);
    this.#all.add(holder);
    await holder.ready(this.#parts.databaseUrl, false);
    return holder;
  }
}

/** Rejects when the delivery ends and was not struck. A killed or frozen holder says nothing, and then neither does this. */
async function endedEarly(victim: HolderProcess): Promise<never> {
  const end = await victim.endedUnstruck();
  if (end === undefined) return new Promise(() => undefined);
  const why = "the delivery that was to be struck ended before the provider had answered a write of the tool";
  throw new ToolsError("KIT_FAILED", `${why}. Does the tool use the given URL? It said ${JSON.stringify(end)}.`);
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
