// What the arms of the worker's benchmarks share: wall and CPU time of this process, and a client of the embedded queue.

import { SQSClient } from "@aws-sdk/client-sqs";
import type { Played } from "./bench-worker-process.ts";
import { cpuUs } from "./cpu-time.ts";

export interface Stopwatch {
  /** The first call counts, later ones do nothing. */
  begin(): void;
  end(): Played;
}

export function stopwatch(): Stopwatch {
  let begun: { readonly at: number; readonly cpu: number } | undefined;
  return {
    begin: () => {
      begun ??= { at: performance.now(), cpu: cpuUs() };
    },
    end: () => {
      const { at, cpu } = begun ?? { at: performance.now(), cpu: cpuUs() };
      return { wallMs: performance.now() - at, cpuMs: (cpuUs() - cpu) / 1_000 };
    },
  };
}

export function benchClient(endpoint: string | undefined): SQSClient {
  return new SQSClient({
    region: "us-east-1",
    credentials: { accessKeyId: "bench", secretAccessKey: "bench" },
    ...(endpoint === undefined ? {} : { endpoint }),
  });
}
