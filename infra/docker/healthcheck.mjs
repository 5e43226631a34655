// Asks the worker of this container whether it is alive, without curl: exit code 0 for yes. Argument: the port of REPRISE_HEALTH_PORT.

/** Less than the platform's own time-out, so that the exit code is ours. */
const ANSWER_MS = 3_000;
const [, , port = "8080"] = process.argv;

try {
  const response = await fetch(`http://127.0.0.1:${port}/live`, { signal: AbortSignal.timeout(ANSWER_MS) });
  if (!response.ok) process.stderr.write(`${response.status} ${await response.text()}\n`);
  process.exitCode = response.ok ? 0 : 1;
} catch (error) {
  process.stderr.write(`${error}\n`);
  process.exitCode = 1;
}
