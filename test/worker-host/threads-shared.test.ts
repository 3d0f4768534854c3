/** Whose start is served next, and how many threads the machine bears. */
import { describe, expect, it } from 'vitest';
import { SubagentError, WorkerError } from '../../protocol/errors.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { normal, pool, settled, start, wake } from './thread-pool.ts';

describe('starts that wait', () => {
  it('are served one root after the other, and in order within each', async () => {
    const { threads, made } = pool({ maxThreads: 1 });
    const first = threads.checkout(normal, start);
    made[0]!.comesUp();
    await first;
    const [a, b] = [{}, {}];
    const order: string[] = [];
    const begin = (name: string, root: object) =>
      void threads.checkout(normal, { ...start, root }).then(() => order.push(name));
    for (const name of ['a1', 'a2', 'a3']) begin(name, a);
    for (const name of ['b1', 'b2']) begin(name, b);
    for (let index = 0; index < 5; index++) {
      made[index]!.goes(undefined);
      await settled();
      made[index + 1]!.comesUp();
      await settled();
    }
    expect(order).toEqual(['a1', 'b1', 'a2', 'b2', 'a3']);
  });

  it('are refused newest first, of whichever root', async () => {
    const { threads, made } = pool({ maxThreads: 1 });
    const first = threads.checkout(normal, start);
    made[0]!.comesUp();
    await first;
    const [a, b] = [{}, {}];
    const refused: string[] = [];
    for (const [name, root] of [
      ['a1', a],
      ['b1', b],
      ['a2', a],
    ] as const) {
      threads.checkout(normal, { ...start, root }).catch(() => refused.push(name));
    }
    for (let i = 0; i < 3; i++) threads.refuseNewest(new SubagentError('CAPACITY', 'Full.'));
    await settled();
    expect(refused).toEqual(['a2', 'b1', 'a1']);
    expect(threads.queueLength).toBe(0);
  });
});

describe('what the machine bears', () => {
  const machine = (most: number) => ({ bound: 'memory maps', most: () => most });

  it('counts when it is less than the cap, also for those that are kept ready', async () => {
    const state = pool({ warm: 3, maxThreads: 4, machine: machine(2) });
    for (let i = 0; i < 2; i++) {
      await settled();
      for (const thread of state.made) thread.comesUp();
    }
    await settled();
    expect(state.made).toHaveLength(2);
    expect(state.threads.bound).toBe('memory maps');
  });

  it('is asked again and again while somebody waits for it alone', async () => {
    const clock = new ManualClock();
    let most = 0;
    const state = pool({ clock, machine: { bound: 'memory', most: () => most } });
    const waiting = state.threads.checkout(normal, wake);
    await settled();
    expect(state.made).toEqual([]);
    expect(state.full).toBe(1);
    await clock.advance(1_000);
    most = 1;
    await clock.advance(1_000);
    state.made[0]!.comesUp();
    expect(await waiting).toBe(state.made[0]);
    expect(state.threads.bound).toBe('memory');
    expect(clock.pending).toBe(0);
  });

  it('is asked no more once nobody waits', async () => {
    const clock = new ManualClock();
    const stop = new AbortController();
    const { threads } = pool({ clock, machine: machine(0) });
    const waiting = threads.checkout(normal, { ...start, signal: stop.signal });
    expect(clock.pending).toBe(1);
    stop.abort('enough');
    await expect(waiting).rejects.toBe('enough');
    expect(clock.pending).toBe(0);
  });

  it('is told how many threads there are, without those that could not be ended', async () => {
    const lives: number[] = [];
    const most = (live: number): number => {
      lives.push(live);
      return 2;
    };
    const { threads, made } = pool({ maxThreads: 1, machine: { bound: 'memory', most } });
    const first = threads.checkout(normal, start);
    made[0]!.comesUp();
    await first;
    made[0]!.goes(new WorkerError('WORKER_STUCK', 'It does not end.'));
    await settled();
    const next = threads.checkout(normal, start);
    made[1]!.comesUp();
    await next;
    expect(lives.at(-1)).toBe(0);
  });
});
