// CPU time of this process: what a figure of pure computing is taken with, since other processes take wall time and not this.

/** Microseconds of all threads, the garbage collector's included: they are part of what an allocation costs. */
export function cpuUs(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
