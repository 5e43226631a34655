// A provider that counts: honours idempotency keys or not, and can be asked what it made. For tools whose provider has no sandbox.
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";

/** What the kit needs of a provider: where it is, and its own word on what happened. */
export interface CountedProvider {
  readonly url: string;
  /** How often the effect with this mark has happened. */
  executions(mark: string): Promise<number>;
  /** Each request that asked for it, as text in which its key can be found, if it came with one. */
  requests(mark: string): Promise<readonly string[]>;
}

export interface CountingProviderOptions {
  /** Whether the same key makes the effect once. Default true. */
  readonly honoursKeys?: boolean;
  /** Header of the key. Default `idempotency-key`. */
  readonly keyHeader?: string;
  /** The answer's body for the effect with this number; default `{ id }`. */
  readonly answer?: (made: MadeEffect) => unknown;
  /** Requests kept. Default 10,000; above it the oldest are forgotten and counted. */
  readonly requestsMax?: number;
}

export interface MadeEffect {
  /** `made_1`, `made_2`, ... */
  readonly id: string;
  readonly key: string | null;
  /** URL and body of the request that made it. */
  readonly request: string;
}

export interface CountingProvider extends CountedProvider {
  readonly forgotten: number;
  close(): Promise<void>;
}

interface Entry {
  readonly text: string;
  readonly made: MadeEffect | undefined;
}

/** GET with `?contains=<text>` answers `{ made: [...] }`, for a lookup; any other method makes the effect. */
export async function startCountingProvider(options: CountingProviderOptions = {}): Promise<CountingProvider> {
  const keyHeader = options.keyHeader ?? "idempotency-key";
  const requestsMax = options.requestsMax ?? 10_000;
  const answerOf = options.answer ?? (({ id }) => ({ id }));
  const entries: Entry[] = [];
  let count = 0;
  let forgotten = 0;
  const made = (): readonly MadeEffect[] => entries.flatMap((entry) => entry.made ?? []);
  const make = (request: IncomingMessage, body: string): MadeEffect => {
    const header = request.headers[keyHeader];
    const key = typeof header === "string" ? header : null;
    const known = made().find((effect) => key !== null && effect.key === key);
    const replayed = options.honoursKeys !== false ? known : undefined;
    if (replayed === undefined) count += 1;
    const effect = replayed ?? { id: `made_${count}`, key, request: `${request.url} ${body}` };
    const text = `${request.url} ${JSON.stringify(request.headers)} ${body}`;
    entries.push({ text, made: replayed === undefined ? effect : undefined });
    if (entries.length > requestsMax) {
      entries.shift();
      forgotten += 1;
    }
    return effect;
  };
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      const contains = new URL(request.url ?? "/", "http://provider").searchParams.get("contains");
      const answer =
        request.method === "GET"
          ? { made: made().filter((effect) => contains !== null && holds(effect, contains)) }
          : answerOf(make(request, body));
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(answer));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A server that listens on a port has an address of this form.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    executions: async (mark) => made().filter((effect) => effect.request.includes(mark)).length,
    requests: async (mark) => entries.map(({ text }) => text).filter((text) => text.includes(mark)),
    get forgotten() {
      return forgotten;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function holds(effect: MadeEffect, text: string): boolean {
  return effect.key === text || effect.request.includes(text);
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  request.setEncoding("utf8");
  // With an encoding set the pieces are strings.
  for await (const piece of request) text += piece as string;
  return text;
}
