import { expect, it, vi } from 'vitest';
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

it('waits for the longest time there is where it is asked for a longer one', () => {
  const set = vi.spyOn(globalThis, 'setTimeout');
  try {
    systemClock.after(2 ** 31 + 1_000, () => {}).cancel();
    systemClock.after(5, () => {}).cancel();
    expect(set.mock.calls.map(([, ms]) => ms)).toEqual([2 ** 31 - 1, 5]);
  } finally {
    set.mockRestore();
  }
});
