// The endpoint's own routes, outside AWS's protocol: health, faults, and counters for tests in other processes.

import type { SqsEndpoint } from "./sqs-endpoint.ts";
import { SqsEndpointError } from "./sqs-errors.ts";
import { parseFaults } from "./sqs-faults-parse.ts";

export interface ControlRequest {
  readonly method: string;
  readonly path: URL;
  readonly body: string;
}

export interface ControlReply {
  readonly httpStatus: number;
  readonly body: unknown;
}

/** `?queue=name` narrows GET /_requests and DELETE /_faults to one queue. */
export function answerControl(endpoint: SqsEndpoint, request: ControlRequest): ControlReply {
  const queue = request.path.searchParams.get("queue") ?? undefined;
  switch (`${request.method} ${request.path.pathname}`) {
    case "GET /health":
      return { httpStatus: 200, body: { status: "ok", polls: endpoint.pollCount } };
    case "GET /_requests":
      return { httpStatus: 200, body: endpoint.requests(queue) };
    case "GET /_refusals":
      return { httpStatus: 200, body: endpoint.refusals() };
    case "GET /_faults":
      return { httpStatus: 200, body: endpoint.faults.list() };
    case "DELETE /_faults":
      endpoint.faults.clear(queue);
      return { httpStatus: 200, body: endpoint.faults.list() };
    case "POST /_faults":
      return addFaults(endpoint, request.body);
    default:
      return { httpStatus: 404, body: { message: "An SQS call is a POST with the header x-amz-target." } };
  }
}

/** All or none: a list with one bad fault adds nothing. */
function addFaults(endpoint: SqsEndpoint, body: string): ControlReply {
  try {
    endpoint.faults.add(...parseFaults(body));
    return { httpStatus: 200, body: endpoint.faults.list() };
  } catch (error) {
    if (!(error instanceof SqsEndpointError)) throw error;
    return { httpStatus: 400, body: { code: error.code, message: error.message } };
  }
}
