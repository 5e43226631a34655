// The operations of SQS that this endpoint answers, by their AWS names.

export const SQS_OPERATIONS = [
  "CreateQueue",
  "GetQueueUrl",
  "ListQueues",
  "GetQueueAttributes",
  "SetQueueAttributes",
  "PurgeQueue",
  "DeleteQueue",
  "ListDeadLetterSourceQueues",
  "StartMessageMoveTask",
  "SendMessage",
  "SendMessageBatch",
  "ReceiveMessage",
  "DeleteMessage",
  "DeleteMessageBatch",
  "ChangeMessageVisibility",
  "ChangeMessageVisibilityBatch",
] as const;

export type SqsOperationName = (typeof SQS_OPERATIONS)[number];

export function isOperationName(name: string): name is SqsOperationName {
  const names: readonly string[] = SQS_OPERATIONS;
  return names.includes(name);
}
