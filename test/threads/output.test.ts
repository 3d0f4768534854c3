/** One thread of the library, without an agent's life around it. */
import { expect, it } from 'vitest';
import { WorkerThread } from '../../dist/src/worker-host/thread.js';
import { systemClock } from '../../dist/src/base/clock.js';
import { silentLogger } from '../../dist/src/base/logger.js';
import { WorkerError } from '../../dist/src/index.js';
import { fixture } from './real.ts';
import { until } from '../support/until.ts';

it('keeps the first 256 KiB of what a thread prints, and counts the rest', async () => {
  const thread = new WorkerThread({
    entry: fixture('printing-entry.mjs'),
    limits: { memoryMb: 64 },
    env: {},
    execArgv: [],
    startMs: 10_000,
    clock: systemClock,
    logger: silentLogger,
  });
  await thread.up;
  // Read on, although nothing of it keeps the process alive any more.
  thread.hold(false);
  const printed = 2 * 400_000;
  const { output } = thread;
  await until(() => output.text.length + output.droppedBytes >= printed);
  expect(output.text).toMatch(/^[oe]{262144}$/);
  expect(output.droppedBytes).toBe(printed - 262_144);
  thread.kill(new WorkerError('WORKER_EXITED', 'Enough.'));
  expect((await thread.ended).error?.message).toBe('Enough.');
});
