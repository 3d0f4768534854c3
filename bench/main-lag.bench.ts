/** How late is the main thread's loop while children compute? */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { Piscina } from 'piscina';
import type { Script } from '../src/testing.ts';
import { delegator } from './children.ts';
import { report, rounds } from './support.ts';
import type { Row } from './support.ts';

const CHILDREN = 8;
const WORK = { count: 20, ms: 5 };
const TOOL = new URL('./fixtures/burn-tool.js', import.meta.url);
const TASK = new URL('./fixtures/burn.js', import.meta.url);
const BARE = new URL('./fixtures/burn-worker.js', import.meta.url);

/** Each child calls the tool once and then answers. */
const script: Script = ({ messages }) =>
  messages.at(-1)?.source.kind === 'tool'
    ? 'done'
    : { toolCalls: [{ name: 'burn', arguments: WORK }] };

const times = (work: () => Promise<unknown>): Promise<unknown> =>
  Promise.all(Array.from({ length: CHILDREN }, work));

/** The 99th percentile of the loop's lateness while `work` runs, in milliseconds. */
async function lateness(work: () => Promise<unknown>): Promise<number> {
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  await work();
  delay.disable();
  return delay.percentile(99) / 1e6;
}

export async function mainLagBench(count = 15): Promise<Row[]> {
  const options = { script, tools: [{ module: TOOL }], workers: { warm: 0 } };
  await using threads = await delegator(options);
  await using inProcess = await delegator({ ...options, inProcess: true });
  const pool = new Piscina({
    filename: TASK.href,
    minThreads: CHILDREN,
    maxThreads: CHILDREN,
    atomics: 'disabled',
  });
  const bare = async (): Promise<void> => {
    const worker = new Worker(BARE, { workerData: WORK, stdout: true, stderr: true });
    await once(worker, 'message');
    await worker.terminate();
  };
  try {
    return await rounds({
      name: `main lag, ${CHILDREN} children of ${WORK.count} × ${WORK.ms} ms each`,
      unit: 'ms late, p99',
      rounds: count,
      warmup: 1,
      contenders: [
        {
          name: 'the same loop, no thread',
          measure: () => lateness(() => times(() => inProcess.delegate('go'))),
        },
        {
          name: 'children in their threads',
          measure: () => lateness(() => times(() => threads.delegate('go'))),
        },
        { name: 'bare `Worker` each', measure: () => lateness(() => times(bare)) },
        {
          name: 'piscina, warm pool (no isolation)',
          measure: () => lateness(() => times(() => pool.run(WORK))),
        },
      ],
    });
  } finally {
    await pool.destroy();
  }
}

if (process.argv[1]?.endsWith('main-lag.bench.js') === true) report(await mainLagBench());
