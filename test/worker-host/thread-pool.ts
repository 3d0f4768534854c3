/** Threads of a test's own, and what waits for them. */
import { WorkerError } from '../../protocol/errors.ts';
import type { ThreadLimits } from '../../src/worker-host/limits.ts';
import { Threads } from '../../src/worker-host/threads.ts';
import type { ThreadsOptions } from '../../src/worker-host/threads.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { FakeThread } from './fake-thread.ts';

export const normal: ThreadLimits = { memoryMb: 256 };
export const small: ThreadLimits = { memoryMb: 64 };
export const start = { isRefusable: true };
export const wake = { isRefusable: false };
export const failure = new WorkerError('WORKER_START_FAILED', 'No thread today.');

/** Everything that can happen by itself has happened. */
export const settled = async (): Promise<void> => {
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve));
};

export function pool(options: Partial<ThreadsOptions> = {}) {
  const made: FakeThread[] = [];
  let full = 0;
  const threads = new Threads({
    factory(limits) {
      const thread = new FakeThread(limits);
      made.push(thread);
      return thread;
    },
    defaults: normal,
    warm: 0,
    maxThreads: 4,
    startingAtOnce: 2,
    clock: new ManualClock(),
    onFull: () => void full++,
    ...options,
  });
  return {
    threads,
    made,
    get full() {
      return full;
    },
    /** End what was told to end. */
    sweep() {
      for (const thread of made) if (thread.killReason !== undefined) thread.goes();
    },
  };
}
