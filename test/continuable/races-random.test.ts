/**
 * Trees of continuable children that grow, talk and are ended at random points. A seed makes the
 * whole of a walk; `SEED=17` walks that one alone.
 */
import { expect, it } from 'vitest';
import { Forest } from './forest.ts';

const WALKS = Number(process.env['WALKS'] ?? 100);
const IN_ONE_TEST = 50;
const { SEED } = process.env;
const firsts =
  SEED === undefined
    ? Array.from({ length: Math.ceil(WALKS / IN_ONE_TEST) }, (_, block) => block * IN_ONE_TEST + 1)
    : [Number(SEED)];

it.each(firsts)('loses, repeats and leaves nothing, with the seeds from %i on', async (first) => {
  const failures: string[] = [];
  const last = SEED === undefined ? first + IN_ONE_TEST - 1 : first;
  for (let seed = first; seed <= last; seed++) {
    const forest = await Forest.of(seed);
    await forest.walk();
    if (forest.problems.length > 0) failures.push(String(forest));
  }
  expect(failures).toEqual([]);
});
