// Requests by which another tracer sends what it recorded: no part of the run in whose context its queue happened to start.

/** What the fetch instrumentation knows of a request before it is sent. */
export interface OutgoingRequest {
  readonly path: string;
  /** Lines, or names and values in turns; a value may be a list. */
  readonly headers: string | readonly (string | readonly string[])[];
}

// What its recording client calls. A tool that asks LangSmith for something else (`/runs/query`) keeps its span.
const LANGSMITH_UPLOAD = /\/(?:info|runs(?:\/batch|\/multipart|\/[0-9a-f-]{36})?)$/;

/**
 * LangSmith's client (0.12.0) posts in the background, in the context of whichever run was active: with both tracers on, one run
 * of five got its `POST` and another two, or none (langsmith.real.test.ts). Known by its own name in `User-Agent`.
 */
export function isTraceUpload({ path, headers }: OutgoingRequest): boolean {
  if (!LANGSMITH_UPLOAD.test(path.split("?", 1)[0] ?? "")) return false;
  const text = typeof headers === "string" ? headers : headers.flat().join("\r\n");
  return /(?:^|\r\n)user-agent(?:: ?|\r\n)langsmith-js\//i.test(text);
}
