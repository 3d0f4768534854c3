/** One thread of the library, without an agent's life around it. */
import { expect, it } from 'vitest';
import { WorkerThread } from '../../dist/src/worker-host/thread.js';
import { systemClock } from '../../dist/src/base/clock.js';
import { silentLogger } from '../../dist/src/base/logger.js';
import { processReadings } from '../../dist/src/worker-host/process-readings.js';
import { Supervision } from '../../dist/src/worker-host/supervision.js';
import { workerEntry } from '../../dist/src/worker-host/entry.js';
import { WorkerError } from '../../dist/src/index.js';
import { fixture } from './real.ts';
import { until } from '../support/until.ts';

const supervisionWith = (readings: typeof processReadings): Supervision =>
  new Supervision({ clock: systemClock, readings, logger: silentLogger });
const options = {
  limits: { memoryMb: 64 },
  env: {},
  execArgv: [],
  startMs: 10_000,
  clock: systemClock,
  logger: silentLogger,
  supervision: supervisionWith(processReadings),
};

it('keeps the first 256 KiB of what a thread prints, and counts the rest', async () => {
  const thread = new WorkerThread({
    ...options,
    entry: fixture('printing-entry.mjs'),
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

it('is sent no more by a thread than it keeps, however fast that prints, and knows the rest', async () => {
  const thread = new WorkerThread({ ...options, entry: fixture('chatty-entry.mjs') });
  const printed = 400_000 + 2_000 * 65_536 + 200;
  const { output } = thread;
  await until(() => Buffer.byteLength(output.text) + output.droppedBytes >= printed);
  expect(output.text).toMatch(/^(o\n){131072}$/);
  expect(output.droppedBytes).toBe(printed - 262_144);
  // None of that came.
  expect(output.cell.dropped).toBe(printed - 262_144);
  thread.kill(new WorkerError('WORKER_EXITED', 'Enough.'));
  await thread.ended;
});

it('ends a thread that prints on around the cut', async () => {
  const entry = fixture('printing-entry.mjs');
  const thread = new WorkerThread({ ...options, env: { PIECES: '1000' }, entry });
  expect((await thread.ended).error?.code).toBe('WORKER_FLOODED');
  expect(thread.output.droppedBytes).toBeGreaterThan(16 * 1024 * 1024);
});

it.each([
  ['as the system counts it', processReadings],
  ['as busy time where the system does not tell', { ...processReadings, thread: () => undefined }],
])(
  'tells the processor time of a thread from its first sign of life to its end, %s',
  async (_, readings) => {
    const thread = new WorkerThread({
      ...options,
      entry: workerEntry(),
      supervision: supervisionWith(readings),
    });
    expect(thread.cpuMs()).toBeUndefined();
    await thread.up;
    expect(thread.cpuMs()).toBeGreaterThan(0);
    expect(thread.cpuMs()).toBeLessThan(10_000);
    thread.kill(new WorkerError('WORKER_EXITED', 'Enough.'));
    await thread.ended;
    expect(thread.cpuMs()).toBeUndefined();
  },
);
