// Made-up secrets of many kinds for the gate's tests: each with the part that must never be seen again.

export interface PlantedSecret {
  readonly kind: string;
  readonly text: string;
  /** What an attacker needs; looked for in the output. */
  readonly core: string;
}

const run = (size: number, salt: number): string => {
  const letters = "aB3dE5gH7jK9mN2pQ4rS6tU8vW";
  return Array.from({ length: size }, (_, index) => letters.charAt((index * 7 + salt) % letters.length)).join("");
};
const digits = (size: number): string =>
  Array.from({ length: size }, (_, index) => String((index * 7 + 3) % 10)).join("");
const hex = (size: number): string =>
  Array.from({ length: size }, (_, index) => ((index * 11 + 5) % 16).toString(16)).join("");
// Assembled here, so that no scanner of repositories takes them for real ones.
const plant = (kind: string, prefix: string, core: string, suffix = ""): PlantedSecret => ({
  kind,
  text: `${prefix}${core}${suffix}`,
  core,
});

/** Recognisable by their value alone, wherever they stand. */
export const VALUE_SECRETS: readonly PlantedSecret[] = [
  plant("openai", "sk-", run(40, 1)),
  plant("openai project", "sk-proj-", run(60, 2)),
  plant("anthropic", "sk-ant-", `api03-${run(40, 3)}`),
  plant("openrouter", "sk-or-", `v1-${run(40, 4)}`),
  plant("stripe live", "sk_live_", run(24, 5)),
  plant("stripe restricted", "rk_test_", run(24, 6)),
  plant("stripe webhook", "whsec_", run(32, 7)),
  plant("slack bot", "xoxb-", `${digits(12)}-${run(24, 8)}`),
  plant("slack app", "xapp-", `1-${run(30, 9)}`),
  plant("github", "ghp_", run(36, 10)),
  plant("github server", "ghs_", run(36, 11)),
  plant("github fine-grained", "github_pat_", `${run(22, 12)}_${run(40, 13)}`),
  plant("gitlab", "glpat-", run(20, 14)),
  plant("aws", "AK", `IA${run(16, 15).toUpperCase()}`),
  plant("aws session", "AS", `IA${run(16, 16).toUpperCase()}`),
  plant("google", "AIza", run(35, 17)),
  plant("google oauth", "ya29.", run(60, 18)),
  plant("jwt", "eyJ", `${run(30, 19)}.${run(60, 20)}.${run(43, 21)}`),
  plant("npm", "npm_", run(36, 22)),
  plant("pypi", "pypi-", run(60, 23)),
  plant("hugging face", "hf_", run(34, 24)),
  plant("groq", "gsk_", run(48, 25)),
  plant("langsmith", "lsv2_", `pt_${run(32, 26)}`),
  plant("xai", "xai-", run(60, 27)),
  plant("sendgrid", "SG.", `${run(22, 28)}.${run(43, 29)}`),
  plant("digital ocean", "dop_v1_", hex(64)),
  plant("shopify", "shpat_", hex(32)),
  plant("telegram", "", `123456789:${run(35, 30)}`),
  plant(
    "pem",
    "-----BEGIN RSA PRIVATE KEY-----\n",
    `${run(64, 31)}\n${run(64, 32)}`,
    "\n-----END RSA PRIVATE KEY-----",
  ),
  plant("postgres url", "postgres://app:", "hunter2p4ss", "@db.internal:5432/app"),
  plant("redis url", "redis://:", "s3cretredis", "@cache:6379"),
  plant("mongodb url", "mongodb+srv://root:", "p4ss/w0rd", "@cluster.example/x"),
  plant("bearer", "Bearer ", run(30, 33)),
  plant("basic", "Basic ", `${run(22, 34)}==`),
  plant("visa", "", "4111111111111111"),
  plant("visa grouped", "", "4111 1111 1111 1111"),
  plant("amex", "", "378282246310005"),
  plant("mastercard", "", "5555-5555-5555-4444"),
];

/** Field names whose values are secret whatever they look like. */
export const SECRET_KEYS: readonly string[] = [
  "password",
  "Password",
  "db_password",
  "PGPASSWORD",
  "passwd",
  "userPwd",
  "secret",
  "clientSecret",
  "CLIENT_SECRET",
  "aws-secret-access-key",
  "token",
  "apiToken",
  "authToken",
  "access_token",
  "refreshToken",
  "api_key",
  "apiKey",
  "APIKEY",
  "x-api-key",
  "X-API-Key",
  "Authorization",
  "proxy-authorization",
  "cookie",
  "Set-Cookie",
  "privateKey",
  "private_key",
  "credentials",
  "sessionToken",
  "connectionString",
  "cardNumber",
  "cvv",
  "ssn",
  "jwt",
  "csrfToken",
  "idempotency-key",
];

/** Names that only look like it. */
export const HARMLESS_KEYS: readonly string[] = [
  "maxTokens",
  "max_tokens",
  "input_tokens",
  "outputTokens",
  "tokens",
  "author",
  "authority",
  "key",
  "monkey",
  "keyboard",
  "tokenizer",
  "passenger",
  "compass",
  "secretary",
  "cookieless",
  "public_key",
  "primaryKey",
  "customer_id",
  "amount",
];
