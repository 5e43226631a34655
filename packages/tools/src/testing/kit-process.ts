// A holder as a process of its own: started from the user's program, told what to do, killed or frozen with a real signal.
import { type ChildProcess, execFile, fork } from "node:child_process";
import { once } from "node:events";
import { promisify } from "node:util";
import { ToolsError } from "../errors.ts";
import { holderEnvironment } from "./env.ts";
import type { Delivery, DeliveryEnd, FromHolder, ToHolder } from "./holder-messages.ts";
import type { Strike } from "./points.ts";

export interface HolderProgram {
  readonly path: string;
  readonly arguments: readonly string[];
  /** For Node itself, such as a loader of TypeScript. */
  readonly nodeArguments: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
}

const ANSWER_MS_MAX = 60_000;

export class HolderProcess {
  readonly #child: ChildProcess;
  readonly #path: string;
  readonly #said: FromHolder[] = [];
  #wake: (() => void) | undefined;
  #struck = false;

  constructor(program: HolderProgram) {
    this.#path = program.path;
    this.#child = fork(program.path, [...program.arguments], {
      execArgv: [...program.nodeArguments],
      env: holderEnvironment(program.environment),
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    this.#child.on("message", (message) => {
      // Holders say only what holder-messages.ts lists, one message an order: the queue holds two at most.
      this.#said.push(message as FromHolder);
      this.#wake?.();
    });
    this.#child.once("exit", () => this.#wake?.());
  }

  /** Resolves with the tool it holds, once it is loaded and connected. */
  async ready(databaseUrl: string, setup: boolean): Promise<FromHolder & { readonly kind: "loaded" }> {
    const loaded = await this.#expect("loaded");
    this.#send({ kind: "prepare", databaseUrl, setup });
    await this.#expect("prepared");
    return loaded;
  }

  start(delivery: Delivery): void {
    this.#send({ kind: "deliver", delivery });
  }

  /** Rejects with KIT_FAILED when the delivery ends without having passed the point. */
  async atPoint(): Promise<void> {
    await this.#expect("at");
  }

  async ended(): Promise<DeliveryEnd> {
    return this.#expect("ended");
  }

  /** The end of a delivery, or undefined as soon as the process was struck. What it says after a thaw is left for `ended`. */
  async endedUnstruck(): Promise<DeliveryEnd | undefined> {
    for (;;) {
      if (this.#struck || this.#isGone()) return undefined;
      const message = this.#said.shift();
      if (message?.kind === "ended") return message;
      await this.#wait(ANSWER_MS_MAX);
    }
  }

  /** Resolves when the process is gone, or has really stopped. */
  async strike(how: Strike): Promise<void> {
    this.#struck = true;
    this.#child.kill(how);
    this.#wake?.();
    if (how === "SIGSTOP") return this.#stopped();
    if (!this.#isGone()) await once(this.#child, "exit");
  }

  thaw(): void {
    this.#struck = false;
    this.#send({ kind: "go" });
    this.#child.kill("SIGCONT");
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** What the holder has said instead of what was awaited is part of the error: it mostly names the cause. */
  async #expect<Kind extends FromHolder["kind"]>(kind: Kind): Promise<Extract<FromHolder, { readonly kind: Kind }>> {
    const message = await this.#next();
    // The comparison is what narrows it; TypeScript does not follow it through the type parameter.
    if (message?.kind === kind) return message as Extract<FromHolder, { readonly kind: Kind }>;
    const instead = message === undefined ? "ended or fell silent" : `said ${JSON.stringify(message)}`;
    const where =
      kind === "at" ? " A point that is never passed mostly means that the tool does not use the given URL." : "";
    throw new ToolsError("KIT_FAILED", `The holder ${this.#path} ${instead} where "${kind}" was due.${where}`);
  }

  async #next(): Promise<FromHolder | undefined> {
    const deadline = Date.now() + ANSWER_MS_MAX;
    for (;;) {
      const message = this.#said.shift();
      if (message !== undefined) return message;
      const leftMs = deadline - Date.now();
      if (leftMs <= 0 || this.#isGone()) return undefined;
      await this.#wait(leftMs);
    }
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #isGone(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** SIGSTOP is delivered soon, not at once; `T` is "stopped by job control signal" (ps(1)). */
  async #stopped(): Promise<void> {
    for (let look = 0; look < 200; look += 1) {
      const { stdout } = await promisify(execFile)("ps", ["-o", "state=", "-p", String(this.#child.pid)]);
      if (stdout.trim().startsWith("T")) return;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    throw new ToolsError("KIT_FAILED", `The holder ${this.#path} did not stop on SIGSTOP.`);
  }

  #send(order: ToHolder): void {
    this.#child.send(order);
  }
}
