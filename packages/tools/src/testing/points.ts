// Where the kit strikes a process that holds a call, and with what. The words stand in the table as they are.

/** In the order in which an execution passes them. */
export const POINTS = ["before_claim", "after_claim", "after_commit", "after_reply", "after_settle"] as const;
export type Point = (typeof POINTS)[number];

/** For people; `after_claim` is also "before the request is sent". */
export const POINT_TITLES: Readonly<Record<Point, string>> = {
  before_claim: "before the claim",
  after_claim: "claimed, not sent",
  after_commit: "committed, no reply yet",
  after_reply: "replied, not recorded",
  after_settle: "recorded, no checkpoint",
};

/** Killed for good; or frozen past its lease and thawed when another execution has finished the call. */
export const STRIKES = ["SIGKILL", "SIGSTOP"] as const;
export type Strike = (typeof STRIKES)[number];
