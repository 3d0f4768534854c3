import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/logger.ts';
import { workerEntry } from './entry.ts';
import type { ResolvedLimits } from './limits.ts';
import type { Supervision } from './supervision.ts';
import { WorkerThread } from './thread.ts';
import type { ThreadFactory } from './thread.ts';

/** What makes the threads of one harness. */
export type MakeThreads = (
  limits: ResolvedLimits,
  logger: Logger,
  supervision: Supervision,
) => ThreadFactory;

export interface WorkerThreadsOptions {
  /** Names of environment variables that threads may see. */
  readonly env?: readonly string[];
  /** The thread entry, for a bundler that moved it. */
  readonly entry?: URL;
  readonly clock: Clock;
}

/** Real threads. Their environment is that of now, and not of when each is made. */
export function workerThreads({
  env: names = [],
  entry,
  clock,
}: WorkerThreadsOptions): MakeThreads {
  return ({ execArgv, startMs }, logger, supervision) => {
    const url = entry ?? workerEntry();
    const env: Record<string, string> = {};
    for (const name of names) {
      const value = process.env[name];
      if (value !== undefined) env[name] = value;
    }
    return (limits) =>
      new WorkerThread({ entry: url, limits, env, execArgv, startMs, clock, logger, supervision });
  };
}
