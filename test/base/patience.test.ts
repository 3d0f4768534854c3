import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { deferred } from '../../src/base/deferred.ts';
import { Patience } from '../../src/base/patience.ts';
import { ManualClock } from '../support/manual-clock.ts';

const MS = 5_000;

function waiting() {
  const loop = { busyMs: 0 };
  const clock = Object.assign(new ManualClock(), { busyMs: () => loop.busyMs });
  const late = (ms: number) => new StoreError('STORE_IO', `late after ${ms}`);
  const patience = new Patience(clock, MS, late);
  const { promise, resolve } = deferred<void>();
  const told: string[] = [];
  patience.await({}, promise).then(
    () => told.push('done'),
    (error: Error) => told.push(error.message),
  );
  return { clock, loop, told, answer: resolve };
}

describe('the patience of those who end', () => {
  it('is over in time with one that never answers', async () => {
    const { clock, told } = waiting();
    await clock.advance(MS - 1);
    expect(told).toEqual([]);
    await clock.advance(1);
    expect(told).toEqual(['late after 5000']);
  });

  it('goes on while the loop that all of them run in has no time for an answer', async () => {
    const { clock, loop, told, answer } = waiting();
    for (let i = 0; i < 10; i++) {
      loop.busyMs += 600;
      await clock.advance(1_000);
    }
    expect(told).toEqual([]);
    answer();
    await clock.advance(0);
    expect(told).toEqual(['done']);
    expect(clock.pending).toBe(0);
  });

  it('is over as soon as there is time, and still no answer', async () => {
    const { clock, loop, told } = waiting();
    loop.busyMs += MS;
    await clock.advance(MS);
    expect(told).toEqual([]);
    loop.busyMs += 400;
    await clock.advance(1_000);
    expect(told).toEqual(['late after 5000']);
  });

  it('is over some time in any case', async () => {
    const { clock, loop, told } = waiting();
    for (let i = 0; i < 30; i++) {
      expect(told).toEqual([]);
      loop.busyMs += 1_000;
      await clock.advance(1_000);
    }
    expect(told).toEqual(['late after 5000']);
  });
});
