import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { deferred } from '../../src/base/deferred.ts';
import { Patience } from '../../src/base/patience.ts';
import { ManualClock } from '../support/manual-clock.ts';

const MS = 5_000;

function waiting(isOfOne: boolean) {
  const clock = new ManualClock();
  const late = (ms: number) => new StoreError('STORE_IO', `late after ${ms}`);
  const patience = new Patience({ clock, ms: MS, late, isOfOne });
  const told: string[] = [];
  return {
    clock,
    told,
    /** The end of somebody is decided, and he waits; the answer is given by what is returned. */
    ends(name: string): () => void {
      const { promise, resolve } = deferred<void>();
      patience.await({}, promise).then(
        () => told.push(`${name} done`),
        () => told.push(`${name} late`),
      );
      return resolve;
    },
  };
}

describe('the patience of those who end', () => {
  it.each([true, false])(
    'is over in time with one that never answers (one party: %s)',
    async (isOfOne) => {
      const { clock, told, ends } = waiting(isOfOne);
      ends('a');
      await clock.advance(MS - 1);
      expect(told).toEqual([]);
      await clock.advance(1);
      expect(told).toEqual(['a late']);
    },
  );

  it('runs from the last answer of one that has much to do', async () => {
    const { clock, told, ends } = waiting(true);
    const answers = ['a', 'b', 'c'].map(ends);
    ends('silent');
    await clock.advance(MS - 1_000);
    answers[0]!();
    await clock.advance(MS - 1_000);
    answers[1]!();
    await clock.advance(MS - 1_000);
    answers[2]!();
    await clock.advance(MS - 1);
    expect(told).toEqual(['a done', 'b done', 'c done']);
    await clock.advance(1);
    expect(told).toEqual(['a done', 'b done', 'c done', 'silent late']);
  });

  it('is over some time also with one that answers everybody else', async () => {
    const { clock, told, ends } = waiting(true);
    ends('silent');
    for (let i = 0; i < 20; i++) {
      ends(String(i))();
      await clock.advance(MS - 1_000);
    }
    expect(told).toContain('silent late');
    expect(told.filter((word) => word.endsWith('late'))).toHaveLength(1);
  });

  it('gives nobody more time for the answer of somebody else', async () => {
    const { clock, told, ends } = waiting(false);
    const answer = ends('a');
    ends('silent');
    await clock.advance(MS - 1_000);
    answer();
    await clock.advance(1_000);
    expect(told).toEqual(['a done', 'silent late']);
  });
});
