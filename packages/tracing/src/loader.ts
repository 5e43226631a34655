// Lets instrumentations reach modules that an ESM program imports: the loader hook, registered once.

import { register } from "node:module";

// A property of the process and not of this module: two copies of this package must not stack two hooks.
const REGISTERED = Symbol.for("@reprise/tracing.loader");

/**
 * To be called before `pg`, `@aws-sdk/*` and `node:http` are imported by ESM code, so from a module of its own that is
 * imported first. `fetch` needs none of it. Repeating it does nothing. Proved by setup.real.test.ts in a child process.
 */
export function registerLoader(): void {
  if (Object.hasOwn(globalThis, REGISTERED)) return;
  Object.defineProperty(globalThis, REGISTERED, { value: true });
  register("@opentelemetry/instrumentation/hook.mjs", import.meta.url);
}
