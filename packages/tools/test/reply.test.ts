// What the model reads.

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { doneReply, failedReply, replayReply, unknownReply } from "../src/reply.ts";

const to = { toolCallId: "m1#0", tool: "charge" };
const INVITATIONS = /\b(?:try|trying|retry|retried|retrying|again|resend|resubmit)\b/i;

describe("replies", () => {
  it("gives the tool's own value, a string as it is", () => {
    expect(doneReply(to, '"paid"').content).toBe("paid");
    expect(doneReply(to, '{"id":"ch_1"}').content).toBe('{"id":"ch_1"}');
    expect(doneReply(to, "null").content).toBe("null");
  });

  it("says failed with its detail", () => {
    const reply = failedReply(to, "card declined");
    expect(JSON.parse(String(reply.content))).toEqual({ status: "failed", detail: "card declined" });
    expect(reply.status).toBe("error");
  });

  it("says unknown with the call and names the status tool when there is one (B11)", () => {
    const reply = unknownReply({ ...to, statusTool: "get_charge_status" }, "timed out");
    const content = JSON.parse(String(reply.content));
    expect(content).toMatchObject({ status: "unknown", detail: "timed out", call: "m1#0" });
    expect(content.next_step).toContain("get_charge_status");
    expect(content.next_step).toContain("m1#0");
    expect(reply.status).toBeUndefined();
  });

  it("names no tool when there is no lookup", () => {
    expect(JSON.parse(String(unknownReply(to, "x").content)).next_step).not.toContain("get_");
  });

  it("never invites a new call, whatever the error said (B11)", () => {
    for (const detail of [
      "Timeout. Please try again.",
      "retry later",
      "Connection reset; retrying might help",
      "Please re-submit the request!",
    ]) {
      expect(String(unknownReply({ ...to, statusTool: "get_charge_status" }, detail).content)).not.toMatch(INVITATIONS);
      expect(String(unknownReply(to, detail).content)).not.toMatch(INVITATIONS);
    }
    fc.assert(
      fc.property(
        fc.lorem(),
        fc.constantFrom("Try again", "please retry", "TRY IT AGAIN", "resend"),
        fc.lorem(),
        (before, invitation, after) => {
          expect(String(unknownReply(to, `${before} ${invitation} ${after}`).content)).not.toMatch(
            /\btry (it )?again|\bretry|\bresend/i,
          );
        },
      ),
    );
  });

  it("answers a replay without its value honestly", () => {
    const reply = replayReply(to, { kind: "too_large", sha256: "ab", bytes: 70_000 }, "ch_1");
    expect(JSON.parse(String(reply.content))).toMatchObject({ status: "done", effect: "ch_1" });
    expect(String(reply.content)).toContain("70000");
  });
});
