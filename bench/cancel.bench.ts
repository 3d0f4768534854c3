/**
 * How long until a tree of 32 children is gone, from the word to the end of the last thread? Each
 * child is in the middle of a tool, in its own thread: one that listens, or one that does not.
 */
import { once } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { createHarness } from '../src/index.ts';
import type { Agent } from '../src/index.ts';
import { scriptedModel } from '../src/testing.ts';
import { report, rounds } from './support.ts';
import type { Row } from './support.ts';

const TOOL = new URL('./fixtures/wait-tool.js', import.meta.url);
const PLAIN = new URL('./fixtures/plain-worker.js', import.meta.url);
/** Children of the root, and of each of those. */
const BRANCHES = 4;
const LEAVES = 7;
const SIZE = BRANCHES * (LEAVES + 1);
const STOP_GRACE_MS = 500;
const SPINNING_MS = 300;

const cell = (): Int32Array => new Int32Array(new SharedArrayBuffer(4));

async function tree(isDeaf: boolean): Promise<number> {
  const [there, gate] = [cell(), cell()];
  const model = scriptedModel(() => ({ toolCalls: [{ name: 'wait', arguments: { isDeaf } }] }));
  await using harness = await createHarness({
    models: { script: model },
    defaultModel: { provider: 'script', model: 'bench' },
    tools: [{ module: TOOL, options: { there, gate } }],
    limits: { maxDepth: 2, stopGraceMs: STOP_GRACE_MS, unresponsiveMs: 'unlimited' },
    workers: { warm: 0 },
  });
  const { agent: root } = await harness.agents.createHost();
  const { signal } = new AbortController();
  const start = async (parent: Agent): Promise<Agent> => {
    const { childId } = await harness.subagents.startContinuable({
      provider: 'spawn',
      label: 'child',
      request: { parent, prompt: 'Wait.' },
      signal,
    });
    return harness.agents.get(childId)!;
  };
  const branches = await Promise.all(Array.from({ length: BRANCHES }, () => start(root)));
  await Promise.all(
    branches.flatMap((branch) => Array.from({ length: LEAVES }, () => start(branch))),
  );
  while (Atomics.load(there, 0) < SIZE) await pause(5);
  Atomics.store(gate, 0, 1);
  Atomics.notify(gate, 0);
  // All of them are seen to spin, or to wait, by whoever shares the processors with them.
  await pause(SPINNING_MS);
  const from = performance.now();
  await harness.subagents.drainContinuableDescendants([root]);
  while (harness.health().threads.live > 0) await pause(1);
  return performance.now() - from;
}

async function bare(): Promise<number> {
  const workers = Array.from(
    { length: SIZE },
    () => new Worker(PLAIN, { stdout: true, stderr: true }),
  );
  await Promise.all(workers.map((worker) => once(worker, 'message')));
  const from = performance.now();
  await Promise.all(workers.map((worker) => worker.terminate()));
  return performance.now() - from;
}

export const cancelBench = (count = 15): Promise<Row[]> =>
  rounds({
    name: `the end of a tree of ${SIZE} children, with ${STOP_GRACE_MS} ms of grace`,
    unit: 'ms',
    rounds: count,
    warmup: 1,
    contenders: [
      { name: `${SIZE} bare idle \`Worker\`s, \`terminate()\``, measure: bare },
      { name: 'children whose tools listen', measure: () => tree(false) },
      { name: 'children whose tools spin', measure: () => tree(true) },
    ],
  });

if (process.argv[1]?.endsWith('cancel.bench.js') === true) report(await cancelBench());
