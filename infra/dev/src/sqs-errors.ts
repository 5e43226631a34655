// Errors of the SQS endpoint: the ones an AWS SDK reads off the wire, and the ones that stop the endpoint itself.

/** The error shapes of the SQS service model that this endpoint answers with. */
export type SqsErrorCode =
  | "BatchEntryIdsNotDistinct"
  | "BatchRequestTooLong"
  | "EmptyBatchRequest"
  | "InvalidAttributeName"
  | "InvalidAttributeValue"
  | "InvalidBatchEntryId"
  | "InvalidMessageContents"
  | "InvalidParameterValue"
  | "MessageNotInflight"
  | "MissingParameter"
  | "OverLimit"
  | "QueueDoesNotExist"
  | "QueueNameExists"
  | "ReceiptHandleIsInvalid"
  | "RequestTooLarge"
  | "ResourceNotFoundException"
  | "SerializationException"
  | "TooManyEntriesInBatchRequest"
  | "UnsupportedOperation";

/** What a bound of this endpoint refused; counted under this name, readable at GET /_refusals. */
export type SqsBound = "request_bytes" | "polls" | "messages" | "queues" | "faults";

export interface SqsWireError {
  readonly code: string;
  /** The code of the older Query protocol: the SDK carries it in `x-amzn-query-error` and old handlers compare with it. */
  readonly queryCode: string;
  readonly httpStatus: number;
}

const PREFIX = "AWS.SimpleQueueService.";

// Only the shapes whose query code or status differs from (own name, 400). Source: the service model inside
// @aws-sdk/client-sqs, traits awsQueryError and httpError.
const DIFFERING: Readonly<Record<string, Omit<SqsWireError, "code">>> = {
  BatchEntryIdsNotDistinct: { queryCode: `${PREFIX}BatchEntryIdsNotDistinct`, httpStatus: 400 },
  BatchRequestTooLong: { queryCode: `${PREFIX}BatchRequestTooLong`, httpStatus: 400 },
  EmptyBatchRequest: { queryCode: `${PREFIX}EmptyBatchRequest`, httpStatus: 400 },
  InvalidBatchEntryId: { queryCode: `${PREFIX}InvalidBatchEntryId`, httpStatus: 400 },
  KmsAccessDenied: { queryCode: "KMS.AccessDeniedException", httpStatus: 400 },
  KmsDisabled: { queryCode: "KMS.DisabledException", httpStatus: 400 },
  MessageNotInflight: { queryCode: `${PREFIX}MessageNotInflight`, httpStatus: 400 },
  OverLimit: { queryCode: "OverLimit", httpStatus: 403 },
  QueueDoesNotExist: { queryCode: `${PREFIX}NonExistentQueue`, httpStatus: 400 },
  QueueNameExists: { queryCode: "QueueAlreadyExists", httpStatus: 400 },
  ReceiptHandleIsInvalid: { queryCode: "ReceiptHandleIsInvalid", httpStatus: 404 },
  RequestThrottled: { queryCode: "RequestThrottled", httpStatus: 403 },
  RequestTooLarge: { queryCode: "RequestTooLarge", httpStatus: 413 },
  ResourceNotFoundException: { queryCode: "ResourceNotFoundException", httpStatus: 404 },
  TooManyEntriesInBatchRequest: { queryCode: `${PREFIX}TooManyEntriesInBatchRequest`, httpStatus: 400 },
  UnsupportedOperation: { queryCode: `${PREFIX}UnsupportedOperation`, httpStatus: 400 },
};

/** The wire form of any AWS error code, also of those that only a fault can cause. */
export function wireError(code: string, httpStatus?: number): SqsWireError {
  const known = DIFFERING[code] ?? { queryCode: code, httpStatus: 400 };
  return { code, queryCode: known.queryCode, httpStatus: httpStatus ?? known.httpStatus };
}

/** A request that SQS would refuse. The endpoint turns it into an error reply; nothing else happened to the queue. */
export class SqsError extends Error {
  readonly code: SqsErrorCode;
  /** Set when a bound of this endpoint, not a rule of SQS, refused the request. */
  readonly bound: SqsBound | undefined;

  constructor(code: SqsErrorCode, message: string, options?: { readonly bound?: SqsBound }) {
    super(message);
    this.name = "SqsError";
    this.code = code;
    this.bound = options?.bound;
  }
}

/** The most common refusal: one parameter has a value SQS does not take. */
export function invalidParameter(name: string, value: unknown, reason: string): SqsError {
  return new SqsError("InvalidParameterValue", `Value ${String(value)} for parameter ${name} is invalid: ${reason}.`);
}

export type SqsEndpointErrorCode =
  | "SQS_JOURNAL_CORRUPT"
  | "SQS_LISTEN_FAILED"
  | "SQS_QUEUE_REFUSED"
  | "SQS_FAULT_INVALID";

/** Thrown to the code that starts or steers the endpoint, never sent to an SQS client. */
export class SqsEndpointError extends Error {
  readonly code: SqsEndpointErrorCode;

  constructor(code: SqsEndpointErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = "SqsEndpointError";
    this.code = code;
  }
}
