// Lets instrumentations reach modules that an ESM program imports: the loader hook, registered once.

import { register } from "node:module";
import { PRODUCT } from "./product.ts";

// A property of the process and not of this module: two copies of this package must not stack two hooks.
const REGISTERED = Symbol.for(`${PRODUCT.scope}/tracing.loader`);

/**
 * Only for instrumentations of packages that are ESM and nothing else. `fetch`, `node:http`, `pg` and the AWS SDK are reached
 * without it, and with it give no span twice; setup.real.test.ts runs both ways in a child process. To be called before those
 * packages are imported, so from a module that is imported first. Repeating it does nothing.
 */
export function registerLoader(): void {
  if (Object.hasOwn(globalThis, REGISTERED)) return;
  Object.defineProperty(globalThis, REGISTERED, { value: true });
  register("@opentelemetry/instrumentation/hook.mjs", import.meta.url);
}
