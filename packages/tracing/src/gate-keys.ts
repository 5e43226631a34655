// Decides by its name alone whether a field holds a secret: `apiToken` does, `max_tokens` does not.

export type SecretKey = (key: string, value: unknown) => boolean;

// One word is enough. Plurals that mean counts (`tokens`) are not here on purpose (case F14).
const WORDS: ReadonlySet<string> = new Set(
  (
    "password passwords passwd pwd passphrase passcode pass secret secrets token apikey apikeys auth authorization credential " +
    "credentials cookie cookies jwt bearer csrf xsrf ssn cvv cvc otp totp pincode sig signature privatekey accesskey " +
    "secretkey accountkey sessionid sid creditcard cardnumber dsn"
  ).split(" "),
);

// Spelled without a boundary (`PGPASSWORD`, `authtoken`), recognised by their end.
const ENDINGS = ["password", "passwd", "passphrase", "secret", "apikey", "token", "credentials"] as const;

// Two adjacent words. Idempotency keys are no secret, but the convention forbids recording them and they are recomputable.
const PAIRS: ReadonlySet<string> = new Set(
  (
    "api-key api-keys private-key private-keys access-key access-keys secret-key account-key signing-key encryption-key master-key " +
    "shared-key subscription-key license-key idempotency-key access-tokens refresh-tokens auth-tokens api-tokens session-key " +
    "connection-string card-number credit-card social-security security-code session-cookie user-pass"
  ).split(" "),
);

// `token` beside one of these, with a number in it, counts tokens.
const QUANTITIES: ReadonlySet<string> = new Set(
  "max min count total limit num number usage used input output prompt completion cached reasoning budget per avg rate index".split(
    " ",
  ),
);

/** Characters of a name that are looked at. */
const KEY_MAX = 256;

/** Every secret name has one of these in it, so that the words of other names need not be looked at. */
const HINT =
  /pass|pwd|secret|token|auth|credential|cookie|jwt|bearer|csrf|xsrf|ssn|cvv|cvc|otp|sig|pincode|sid|dsn|card|session|security|string|[a-z0-9][^a-z0-9]*key/i;

/** Splits on case, digits at the end of a word, and anything that is no letter or digit: `x-apiKey2` is `x`, `api`, `key`. */
export function keyWords(key: string): readonly string[] {
  return key
    .slice(0, KEY_MAX)
    .replace(/([a-z0-9])([A-Z])/g, "$1 $2")
    .replace(/([A-Z])([A-Z][a-z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .map((word) => word.replace(/\d{1,4}$/, ""))
    .filter((word) => word !== "");
}

/** `extraKeys` are matched by the same splitting: `"customer name"` hits `customerName` and `CUSTOMER_NAME`. */
export function secretKeys(extraKeys: readonly string[]): SecretKey {
  const extra = extraKeys.map((key) => ` ${keyWords(key).join(" ")} `).filter((key) => key.trim() !== "");
  const known = new Map<string, boolean>();
  return (key, value) => {
    // Absence and flags (`has_password: true`) are evidence, not secrets.
    if (value === null || value === undefined || typeof value === "boolean" || value === "") return false;
    let secret = known.get(key);
    if (secret === undefined) {
      secret = (extra.length > 0 || HINT.test(key.slice(0, KEY_MAX))) && isSecret(keyWords(key), extra);
      // Field names repeat; hostile ones do not, so the memory is bounded by starting over.
      if (known.size >= 1_000) known.clear();
      if (key.length <= 64) known.set(key, secret);
    }
    return secret && !isCount(key, value);
  };
}

function isSecret(words: readonly string[], extra: readonly string[]): boolean {
  for (const [index, word] of words.entries()) {
    if (WORDS.has(word) || ENDINGS.some((ending) => word.endsWith(ending))) return true;
    if (PAIRS.has(`${word}-${words[index + 1] ?? ""}`)) return true;
  }
  if (extra.length === 0) return false;
  const spaced = ` ${words.join(" ")} `;
  return extra.some((key) => spaced.includes(key));
}

function isCount(key: string, value: unknown): boolean {
  const numeric = typeof value === "number" || (typeof value === "string" && /^\d{1,9}$/.test(value));
  return numeric && /token/i.test(key) && keyWords(key).some((word) => QUANTITIES.has(word));
}
