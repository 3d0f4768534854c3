/**
 * Continuable children in real threads that are interrupted and whose threads die. A few walks
 * here; `WALKS=100` takes more of them, and `SEED=17` that one alone.
 */
import { expect, it } from 'vitest';
import { Forest } from './forest.ts';

const WALKS = Number(process.env['WALKS'] ?? 1);
const CHILDREN = 12;
const { SEED } = process.env;
const seeds = SEED === undefined ? Array.from({ length: WALKS }, (_, n) => n + 1) : [Number(SEED)];

it.each([1, 8])(
  'serves every child that is interrupted, or whose thread dies, with %i threads',
  { timeout: 60_000 + seeds.length * 60_000 },
  async (maxThreads) => {
    const failures: string[] = [];
    for (const seed of seeds) {
      const forest = await Forest.of({ seed, children: CHILDREN, maxThreads });
      await forest.walk();
      if (process.env['SHOW'] !== undefined) {
        console.log(seed, JSON.stringify(forest.figures));
      }
      if (forest.problems.length > 0) failures.push(String(forest));
    }
    expect(failures).toEqual([]);
  },
);
