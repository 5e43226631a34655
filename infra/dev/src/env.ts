// The only reader of the environment in this package: which outside parts replace the embedded ones.

/** Absent fields mean "start the embedded part". */
export interface DevEnvironment {
  /** DATABASE_URL */
  readonly databaseUrl?: string;
  /** QUEUE_URL */
  readonly queueUrl?: string;
  /** SQS_ENDPOINT, else AWS_ENDPOINT_URL_SQS */
  readonly sqsEndpoint?: string;
  /** OTEL_EXPORTER_OTLP_ENDPOINT */
  readonly otlpEndpoint?: string;
  /** AWS_REGION, else AWS_DEFAULT_REGION */
  readonly region?: string;
  /** AWS_ACCESS_KEY_ID or AWS_PROFILE is set: the caller has an identity that dummy keys must not hide. */
  readonly hasAwsCredentials?: true;
}

/** Reads the variables; an empty one counts as unset, as Compose files and CI systems like to pass empty ones. */
export function readEnvironment(variables: Readonly<Record<string, string | undefined>> = process.env): DevEnvironment {
  const read = (...names: readonly string[]): string | undefined =>
    names.map((name) => variables[name]?.trim()).find((value) => value !== undefined && value !== "");
  const found = {
    databaseUrl: read("DATABASE_URL"),
    queueUrl: read("QUEUE_URL"),
    sqsEndpoint: read("SQS_ENDPOINT", "AWS_ENDPOINT_URL_SQS"),
    otlpEndpoint: read("OTEL_EXPORTER_OTLP_ENDPOINT"),
    region: read("AWS_REGION", "AWS_DEFAULT_REGION"),
    hasAwsCredentials: read("AWS_ACCESS_KEY_ID", "AWS_PROFILE") === undefined ? undefined : (true as const),
  };
  // Under exactOptionalPropertyTypes an absent field and an undefined one differ.
  return Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined));
}
