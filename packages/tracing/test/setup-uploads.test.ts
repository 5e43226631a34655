// Which requests are another tracer's uploads, in the header shapes of both undici lines.

import { expect, it } from "vitest";
import { isTraceUpload } from "../src/setup-uploads.ts";

const AGENT = "langsmith-js/0.12.0";

it.each([
  ["/runs/multipart", ["accept", "*/*", "user-agent", AGENT], true],
  ["/runs/batch?x=1", ["User-Agent", [AGENT]], true],
  ["/api/v1/runs/1d4a4b6f-9a7e-4c8d-8e1f-0a3b3f2b8c9e", `accept: */*\r\nUser-Agent: ${AGENT}\r\n`, true],
  ["/info", ["user-agent", AGENT], true],
  ["/runs/query", ["user-agent", AGENT], false],
  ["/runs/batch", ["user-agent", "node", "x-note", AGENT], false],
  ["/v1/charges", ["user-agent", AGENT], false],
  ["/runs/batch", [], false],
] as const)("%s with %j: %s", (path, headers, expected) => {
  expect(isTraceUpload({ path, headers })).toBe(expected);
});
