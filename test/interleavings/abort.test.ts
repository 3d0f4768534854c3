/**
 * One-shot runs that are ended at a random point, by whoever may, in every way. A seed makes the
 * whole plan; `SEED=17` runs one of them alone.
 */
import { describe, expect, it } from 'vitest';
import { canonicalLogs } from '../support/canonical-log.ts';
import { describePlan, planOf } from './plan.ts';
import { listeners, problemsOf } from './problems.ts';
import { Walk } from './walk.ts';

const RUNS = 500;
const IN_ONE_TEST = 100;
const { SEED } = process.env;

async function run(seed: number): Promise<string | undefined> {
  const plan = planOf(seed);
  const walk = await Walk.of(plan);
  try {
    const before = listeners(walk);
    const problems = await problemsOf(walk);
    // Those of the test itself: created, disposed, two of the inbox, status.
    if (listeners(walk) !== before + 5) problems.push('somebody still listens to agents');
    return problems.length === 0 ? undefined : `${describePlan(plan)}: ${problems.join('; ')}`;
  } catch (error) {
    return `${describePlan(plan)}: ${(error as Error).stack ?? String(error)}`;
  } finally {
    await walk.end();
  }
}

const firsts =
  SEED === undefined
    ? Array.from({ length: RUNS / IN_ONE_TEST }, (_, block) => block * IN_ONE_TEST + 1)
    : [Number(SEED)];

describe('a run that is ended at a random point', () => {
  it.each(firsts)(
    'leaves nothing, and its log is whole, with the seeds from %i on',
    async (first) => {
      const failures: string[] = [];
      const last = SEED === undefined ? first + IN_ONE_TEST - 1 : first;
      for (let seed = first; seed <= last; seed++) {
        const failure = await run(seed);
        if (failure !== undefined) failures.push(failure);
      }
      expect(failures).toEqual([]);
    },
  );

  it('goes the same way whenever its seed does', async () => {
    const logs = async (seed: number): Promise<unknown> => {
      const walk = await Walk.of(planOf(seed));
      await problemsOf(walk);
      return canonicalLogs([walk.parent, ...walk.children].map(({ session }) => session));
    };
    for (let seed = 1; seed <= 20; seed++) expect(await logs(seed)).toEqual(await logs(seed));
  });
});
