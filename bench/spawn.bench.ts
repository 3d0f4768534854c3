/**
 * How long from asking for a child to its answer, warm and cold, against a thread by itself? What
 * it takes to end a child, a thread or a pool is not counted.
 */
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import { delegator } from './children.ts';
import { report, rounds } from './support.ts';
import type { Row } from './support.ts';

const PLAIN = new URL('./fixtures/plain-worker.js', import.meta.url);
const OURS = new URL('../agent-worker.cjs', import.meta.url);
const TASK = new URL('./fixtures/burn.js', import.meta.url);
/** Long enough for a warm thread to be there again. */
const GAP_MS = 150;

/** From the constructor to its first message; the end of the thread is not counted. */
async function firstMessage(entry: URL): Promise<number> {
  const start = performance.now();
  const worker = new Worker(entry, { stdout: true, stderr: true });
  await once(worker, 'message');
  const time = performance.now() - start;
  await worker.terminate();
  return time;
}

export async function spawnBench(count = 30): Promise<Row[]> {
  const script = (): string => 'done';
  await using warm = await delegator({ script, workers: { warm: 2 } });
  await using cold = await delegator({ script, workers: { warm: 0 } });
  await using inProcess = await delegator({ script, workers: { warm: 0 }, inProcess: true });
  const pool = new Piscina({
    filename: TASK.href,
    minThreads: 1,
    maxThreads: 1,
    atomics: 'disabled',
  });
  const task = { count: 1, ms: 0 };
  try {
    return await rounds({
      name: 'spawn',
      unit: 'ms',
      rounds: count,
      warmup: 3,
      contenders: [
        { name: 'bare `Worker`, first message', measure: () => firstMessage(PLAIN) },
        { name: 'our thread entry, first message', measure: () => firstMessage(OURS) },
        { name: 'a child, no warm thread', measure: () => cold.delegate('go') },
        {
          name: 'a child, warm thread',
          async measure() {
            await pause(GAP_MS);
            return warm.delegate('go');
          },
        },
        {
          name: 'the same loop, no thread',
          measure: () => inProcess.delegate('go'),
        },
        {
          name: 'piscina, a new pool per task',
          async measure() {
            const start = performance.now();
            const fresh = new Piscina({
              filename: TASK.href,
              minThreads: 1,
              maxThreads: 1,
              atomics: 'disabled',
            });
            await fresh.run(task);
            const time = performance.now() - start;
            await fresh.destroy();
            return time;
          },
        },
        {
          name: 'piscina, shared warm thread (no isolation)',
          async measure() {
            const start = performance.now();
            await pool.run(task);
            return performance.now() - start;
          },
        },
      ],
    });
  } finally {
    await pool.destroy();
  }
}

if (process.argv[1]?.endsWith('spawn.bench.js') === true) report(await spawnBench());
