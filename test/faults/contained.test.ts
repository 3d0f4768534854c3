import { expect, it } from 'vitest';
import { shortPlan } from './plan.ts';
import { failureText, Report } from './report.ts';
import { play } from './run.ts';

const SEED = 0;

it('contains every fault that a thread contains', { timeout: 600_000 }, async () => {
  const report = new Report();
  const plan = shortPlan();
  await play(plan, {
    atOnce: 2,
    perGround: plan.length,
    onOutcome: (outcome) => report.add(outcome),
    onGroundEnd: (end) => report.addEnd(end),
  });
  expect(report.failures.map((outcome) => failureText(outcome, SEED))).toEqual([]);
  expect(report.isClean).toBe(true);
  expect(report.figures()['faults']).toBe(plan.length);
});
