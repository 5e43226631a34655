// The environment of the processes that the kit starts: the caller's own, with where the tool finds its provider.

export function holderEnvironment(added: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  return { ...process.env, ...added };
}
