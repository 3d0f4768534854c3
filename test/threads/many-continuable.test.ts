/**
 * Many continuable children below one host, in three generations on eight threads, that are
 * interrupted and whose threads die; and what is left of them. `SEED=7` plays another order,
 * `CHILDREN=200` has more of them.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, it } from 'vitest';
import { tempStore } from '../support/temp-store.ts';
import { Forest } from './forest.ts';

const CHILDREN = Number(process.env['CHILDREN'] ?? 40);
const MAX_THREADS = 8;
const MIB = 1024 * 1024;
/** For code that is compiled only now, and for what the leak check notes of every thread. */
const HEAP_SLACK_BYTES = 16 * MIB;
/** Of one thread with its modules, and of what main keeps meanwhile. */
const RSS_BYTES = MAX_THREADS * 60 * MIB;
const SEED = Number(process.env['SEED'] ?? 1);

async function walked(children: number): Promise<Forest['figures']> {
  await using temp = tempStore();
  const forest = await Forest.of({
    seed: SEED,
    children,
    maxThreads: MAX_THREADS,
    atOnce: MAX_THREADS,
    store: temp.path,
  });
  await forest.walk();
  expect(forest.problems, `SEED=${SEED}`).toEqual([]);
  return forest.figures;
}

function memory(): { readonly heapUsed: number; readonly rss: number } {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  for (let times = 4; times > 0; times--) collect();
  const { heapUsed, rss } = process.memoryUsage();
  return { heapUsed, rss };
}

it('tells or names as waiting all that its children accepted', { timeout: 600_000 }, async () => {
  // Loads and compiles what one needs.
  await walked(10);
  const before = memory();
  const seen = await walked(CHILDREN);
  const after = memory();
  if (process.env['SHOW'] !== undefined) console.log(JSON.stringify({ before, seen, after }));
  expect(seen.deaths).toBeGreaterThan(0);
  expect(seen.fates['told']).toBeGreaterThan(CHILDREN);
  expect(after.heapUsed - before.heapUsed).toBeLessThan(HEAP_SLACK_BYTES);
  expect(seen.mostRssBytes - before.rss).toBeLessThan(RSS_BYTES);
  expect(after.rss - before.rss).toBeLessThan(RSS_BYTES / 2);
});
