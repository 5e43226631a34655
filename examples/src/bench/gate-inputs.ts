// What the gate's benchmarks give it: a typical kilobyte, the same with secrets in it, and large hostile values.

/** Arguments as a model writes them for a billing tool; 1,024 bytes of JSON. */
export function typicalArguments(): Readonly<Record<string, unknown>> {
  const base = {
    customer: "cus_Q3f8aLm27Xw",
    amount: 121_200,
    currency: "eur",
    description: "Invoice 2026-11 for three seats of the team plan, as agreed in the call of 12 November.",
    items: [
      { sku: "seat-team", quantity: 3, unit_amount: 34_900, note: "renewal, same conditions as last year" },
      { sku: "support-basic", quantity: 1, unit_amount: 16_500, note: "answered within one working day" },
    ],
    address: { line1: "Hauptstrasse 12", postal_code: "10827", city: "Berlin", country: "DE" },
    metadata: { order: "ord_20261112_0042", max_tokens: 512, source: "https://shop.example.com/orders/42?tab=items" },
    sendAt: "2026-11-30T08:00:00.000Z",
    memo: "",
  };
  const words = "Please send the receipt to the accounting team and mention the order number in the subject line. ";
  const missing = 1_024 - Buffer.byteLength(JSON.stringify(base));
  return { ...base, memo: words.repeat(8).slice(0, missing) };
}

/** Secrets by key, by value, in a URL and in JSON inside a string. Assembled, so that no scanner takes them for real. */
export function dirtyArguments(): Readonly<Record<string, unknown>> {
  const token = ["ghp", "Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St0Uv1Wx2"].join("_");
  const clean = typicalArguments();
  return {
    ...clean,
    memo: `call with Authorization: Bearer ${token.slice(4)}`,
    metadata: { apiKey: "not-a-real-key-0001", url: ["postgres", "//app:hunter2@db.example.com/billing"].join(":") },
    card: "4111 1111 1111 1111",
    raw: JSON.stringify({ password: "hunter2", note: "the rest of this is harmless and only fills the space up" }),
    note: `${token} ${String(clean["memo"]).slice(0, 120)}`,
  };
}

const HOSTILE_BYTES = 400_000;
const repeated = (part: string): string => part.repeat(Math.ceil(HOSTILE_BYTES / part.length)).slice(0, HOSTILE_BYTES);

/** Beginnings without ends, one for each kind of pattern, and values that are wide, deep or encoded. */
export function hostileInputs(): ReadonlyMap<string, unknown> {
  const parts = [
    "-----BEGIN ",
    "://a:b/",
    'password="',
    '"\\',
    "[",
    '{"a":',
    "4 ",
    "eyJ",
    "sk-",
    "Bearer ",
    "@",
    "\ud83e",
  ];
  const rows = Array.from({ length: 4_000 }, (_, n) => ({ n, password: "p".repeat(60) }));
  return new Map<string, unknown>([
    ...parts.map((part) => [part, repeated(part)] as const),
    ["one long string in an object", { big: repeated("x"), list: Array.from({ length: 40_000 }, (_, n) => n) }],
    ["rows as JSON", JSON.stringify(rows)],
    ["rows", rows],
    ["wide", Object.fromEntries(Array.from({ length: 20_000 }, (_, n) => [`key_${n}`, "://a:b/"]))],
  ]);
}
