// Proves settling with a fake client: batches of ten, and for each entry its own result under SQS's own name.
import { ChangeMessageVisibilityBatchCommand, DeleteMessageBatchCommand, type SQSClient } from "@aws-sdk/client-sqs";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createSettler, type RefusedEntry, type Settler } from "../src/settle.ts";

const QUEUE = "http://127.0.0.1:1/000000000000/q";

interface Entry {
  readonly Id?: string | undefined;
  readonly ReceiptHandle?: string | undefined;
  readonly VisibilityTimeout?: number | undefined;
}
interface Answer {
  readonly Successful?: readonly { readonly Id: string }[];
  readonly Failed?: readonly {
    readonly Id: string;
    readonly Code: string;
    readonly Message?: string;
    readonly SenderFault?: boolean;
  }[];
}

const onRefused = vi.fn<(refused: RefusedEntry) => void>();
const send = vi.fn<(command: unknown, ...rest: unknown[]) => Promise<Answer>>();
let settler: Settler;

beforeEach(() => {
  vi.useFakeTimers();
  send.mockReset().mockImplementation(async (command) => ({ Successful: entries(command).map(idOf) }));
  // The settler calls `send` alone.
  const client = { send } as unknown as SQSClient;
  onRefused.mockReset();
  settler = createSettler({ client, queueUrl: QUEUE, random: () => 1, onRefused });
});
afterEach(() => {
  vi.useRealTimers();
});

function entries(command: unknown): readonly Entry[] {
  if (command instanceof DeleteMessageBatchCommand) return command.input.Entries ?? [];
  if (command instanceof ChangeMessageVisibilityBatchCommand) return command.input.Entries ?? [];
  throw new TypeError("not a batch command");
}

function idOf(entry: Entry): { readonly Id: string } {
  return { Id: entry.Id ?? "" };
}

/** Settles all and lets the gathering time pass. */
async function results(promises: readonly Promise<void>[]): Promise<readonly PromiseSettledResult<void>[]> {
  const all = Promise.allSettled(promises);
  await vi.advanceTimersByTimeAsync(10);
  return all;
}

const sent = (): readonly (readonly Entry[])[] => send.mock.calls.map(([command]) => entries(command));

test("deletes asked for at the same moment travel in one call to their queue", async () => {
  const ended = await results(["r1", "r2", "r3"].map((handle) => settler.delete(handle)));
  expect(ended.map((end) => end.status)).toEqual(["fulfilled", "fulfilled", "fulfilled"]);
  expect(sent()).toHaveLength(1);
  expect(sent()[0]?.map((entry) => entry.ReceiptHandle)).toEqual(["r1", "r2", "r3"]);
  expect(send.mock.calls[0]?.[0]).toMatchObject({ input: { QueueUrl: QUEUE } });
});

test("a single delete does not wait for others longer than a few milliseconds", async () => {
  const one = settler.delete("r1");
  await vi.advanceTimersByTimeAsync(5);
  await one;
  expect(send).toHaveBeenCalledTimes(1);
});

test("no call carries more than ten entries, and all of them get their result", async () => {
  const ended = await results(Array.from({ length: 27 }, (_, index) => settler.delete(`r${index}`)));
  expect(ended.every((end) => end.status === "fulfilled")).toBe(true);
  expect(sent().map((batch) => batch.length)).toEqual([10, 10, 7]);
});

test("a full batch is sent at once", () => {
  for (let index = 0; index < 10; index += 1) void settler.delete(`r${index}`);
  expect(send).toHaveBeenCalledTimes(1);
});

test("the entries of one call have different ids, even when a handle comes twice", async () => {
  await results([settler.delete("r1"), settler.delete("r1")]);
  expect(new Set(sent()[0]?.map((entry) => entry.Id)).size).toBe(2);
});

test("only the entry that failed inside SQS is asked again, by its receipt handle, and the event names it (Q14)", async () => {
  send.mockResolvedValueOnce({
    Successful: [{ Id: "0" }, { Id: "2" }],
    Failed: [{ Id: "1", Code: "InternalError", Message: "try later" }],
  });
  const ended = Promise.allSettled([settler.delete("r1"), settler.delete("r2"), settler.delete("r3")]);
  await vi.advanceTimersByTimeAsync(200);
  expect((await ended).map((end) => end.status)).toEqual(["fulfilled", "fulfilled", "fulfilled"]);
  expect(sent().map((batch) => batch.map((entry) => entry.ReceiptHandle))).toEqual([["r1", "r2", "r3"], ["r2"]]);
  expect(onRefused.mock.calls).toEqual([
    [{ action: "delete", receiptHandle: "r2", code: "InternalError", again: true }],
  ]);
});

test("an entry that SQS mentions neither as done nor as failed is not taken for done (Q14)", async () => {
  send.mockResolvedValueOnce({ Successful: [{ Id: "0" }] });
  const ended = Promise.allSettled([settler.delete("r1"), settler.delete("r2")]);
  await vi.advanceTimersByTimeAsync(200);
  expect((await ended).map((end) => end.status)).toEqual(["fulfilled", "fulfilled"]);
  expect(sent()[1]?.map((entry) => entry.ReceiptHandle)).toEqual(["r2"]);
  expect(onRefused).toHaveBeenCalledWith(expect.objectContaining({ receiptHandle: "r2", code: "Unconfirmed" }));
});

test("an entry that fails again and again is asked for four times, then rejected, and the next delivery settles it", async () => {
  send.mockResolvedValue({ Failed: [{ Id: "0", Code: "InternalError" }] });
  const ended = Promise.allSettled([settler.delete("r1")]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await ended).toMatchObject([{ status: "rejected", reason: { name: "InternalError" } }]);
  expect(send).toHaveBeenCalledTimes(4);
  expect(onRefused.mock.calls.map(([refused]) => refused.again)).toEqual([true, true, true, false]);
});

test("an entry that is refused through our own fault is not asked again: the handle will be no better", async () => {
  send.mockResolvedValue({ Failed: [{ Id: "0", Code: "ReceiptHandleIsInvalid", SenderFault: true }] });
  const ended = Promise.allSettled([settler.delete("r1")]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect(await ended).toMatchObject([{ status: "rejected", reason: { name: "ReceiptHandleIsInvalid" } }]);
  expect(send).toHaveBeenCalledTimes(1);
});

test("a beat is asked for once: the lease repeats it with a later time, and loses itself by what SQS says", async () => {
  send.mockResolvedValue({ Failed: [{ Id: "0", Code: "InternalError" }] });
  const [end] = await results([settler.extend("r1", 60)]);
  expect(end).toMatchObject({ status: "rejected", reason: { name: "InternalError" } });
  expect(send).toHaveBeenCalledTimes(1);
});

test("thirty beats of the same moment are three calls, and only the refused one hears of it", async () => {
  send.mockImplementation(async (command) => {
    const all = entries(command);
    const gone = all.filter((entry) => entry.ReceiptHandle === "r17");
    return {
      Successful: all.filter((entry) => !gone.includes(entry)).map(idOf),
      Failed: gone.map((entry) => ({ ...idOf(entry), Code: "MessageNotInflight", SenderFault: true })),
    };
  });
  const ended = await results(Array.from({ length: 30 }, (_, index) => settler.extend(`r${index}`, 60)));
  expect(sent().map((batch) => batch.length)).toEqual([10, 10, 10]);
  expect(ended.flatMap((end, index) => (end.status === "rejected" ? [index] : []))).toEqual([17]);
});

test.each([
  ["ReceiptHandleIsInvalid", "ReceiptHandleIsInvalid"],
  ["AWS.SimpleQueueService.MessageNotInflight", "MessageNotInflight"],
])("a refused entry keeps SQS's code %s as the error's name, which is what a lease looks at", async (code, name) => {
  send.mockResolvedValueOnce({ Failed: [{ Id: "0", Code: code, Message: "gone", SenderFault: true }] });
  const [end] = await results([settler.setVisibility("r1", 60)]);
  expect(end).toMatchObject({ status: "rejected", reason: { name, code: "SETTLE_FAILED" } });
  expect(end?.status === "rejected" ? String(end.reason) : "").toContain("gone");
});

test("a call that fails as a whole rejects each of its entries under the name SQS gave", async () => {
  const error = Object.assign(new Error("slow down"), { name: "ThrottlingException" });
  send.mockRejectedValueOnce(error);
  const ended = await results([settler.delete("r1"), settler.delete("r2")]);
  for (const end of ended) expect(end).toMatchObject({ status: "rejected", reason: { name: "ThrottlingException" } });
});

test("a failed call does not hurt the next one", async () => {
  send.mockRejectedValueOnce(new Error("reset"));
  await results([settler.delete("r1")]);
  const [again] = await results([settler.delete("r1")]);
  expect(again?.status).toBe("fulfilled");
});

test("each visibility change carries its own seconds, whole and never negative", async () => {
  await results([settler.setVisibility("r1", 0), settler.setVisibility("r2", 59.6), settler.setVisibility("r3", -4)]);
  expect(sent()[0]?.map((entry) => entry.VisibilityTimeout)).toEqual([0, 60, 0]);
});

test("deletes and visibility changes never share a call", async () => {
  await results([settler.delete("r1"), settler.setVisibility("r2", 0)]);
  expect(send.mock.calls.map(([command]) => (command as object).constructor.name).sort()).toEqual([
    "ChangeMessageVisibilityBatchCommand",
    "DeleteMessageBatchCommand",
  ]);
});

test("no delete can be cut by a signal: the call gets none (Q09)", async () => {
  await results([settler.delete("r1")]);
  expect(send.mock.calls[0]?.slice(1)).toEqual([]);
});
