import { expect, it } from 'vitest';
import { systemClock } from '../../src/base/clock.ts';

/** Timers that keep this process alive. */
const timers = (): number =>
  process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;

it('keeps the process alive only for a timer that is asked to', () => {
  const before = timers();
  const idle = systemClock.after(60_000, () => {});
  expect(timers()).toBe(before);
  const kept = systemClock.after(60_000, () => {}, true);
  expect(timers()).toBe(before + 1);
  idle.cancel();
  kept.cancel();
  expect(timers()).toBe(before);
});
