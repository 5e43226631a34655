// The operations table: an AWS operation's name to the function that answers it.

import type { SqsOperation } from "./sqs-call.ts";
import type { SqsOperationName } from "./sqs-operation-names.ts";
import {
  changeMessageVisibility,
  changeMessageVisibilityBatch,
  deleteMessage,
  deleteMessageBatch,
  receiveMessage,
  sendMessage,
  sendMessageBatch,
} from "./sqs-operations-messages.ts";
import {
  createQueue,
  deleteQueue,
  getQueueAttributes,
  getQueueUrl,
  listDeadLetterSourceQueues,
  listQueues,
  purgeQueue,
  setQueueAttributes,
  startMessageMoveTask,
} from "./sqs-operations-queues.ts";

export const SQS_OPERATION_TABLE: Readonly<Record<SqsOperationName, SqsOperation>> = {
  CreateQueue: createQueue,
  GetQueueUrl: getQueueUrl,
  ListQueues: listQueues,
  GetQueueAttributes: getQueueAttributes,
  SetQueueAttributes: setQueueAttributes,
  PurgeQueue: purgeQueue,
  DeleteQueue: deleteQueue,
  ListDeadLetterSourceQueues: listDeadLetterSourceQueues,
  StartMessageMoveTask: startMessageMoveTask,
  SendMessage: sendMessage,
  SendMessageBatch: sendMessageBatch,
  ReceiveMessage: receiveMessage,
  DeleteMessage: deleteMessage,
  DeleteMessageBatch: deleteMessageBatch,
  ChangeMessageVisibility: changeMessageVisibility,
  ChangeMessageVisibilityBatch: changeMessageVisibilityBatch,
};
