import { getEventListeners } from 'node:events';
import { describe, expect, it, vi } from 'vitest';
import { SubagentError } from '../../protocol/errors.ts';
import { failure, normal, pool, settled, small, start, wake } from './thread-pool.ts';

describe('a checkout', () => {
  it('makes a thread with the limits it was asked for', async () => {
    const { threads, made } = pool();
    const checkout = threads.checkout(small, start);
    expect(made).toHaveLength(1);
    made[0]!.comesUp();
    expect(await checkout).toBe(made[0]);
    expect(made[0]!.limits).toEqual(small);
    expect(made[0]!.asked).toEqual(['hold']);
  });

  it('is one of any number that wait with one signal', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const { threads } = pool({ maxThreads: 1 });
    const stop = new AbortController();
    const options = { ...start, signal: stop.signal };
    const all = Array.from({ length: 12 }, () => threads.checkout(normal, options));
    expect(getEventListeners(stop.signal, 'abort')).toHaveLength(12);
    await settled();
    expect(warned).not.toHaveBeenCalled();
    warned.mockRestore();
    stop.abort('enough');
    for (const one of await Promise.allSettled(all))
      expect(one).toMatchObject({ reason: 'enough' });
    expect(getEventListeners(stop.signal, 'abort')).toEqual([]);
  });

  it('is refused with what kept the thread from starting, and the next one goes on', async () => {
    const { threads, made } = pool({ startingAtOnce: 1 });
    const first = threads.checkout(normal, start);
    const second = threads.checkout(normal, start);
    made[0]!.goes(failure);
    await expect(first).rejects.toBe(failure);
    await settled();
    made[1]!.comesUp();
    expect(await second).toBe(made[1]);
    expect(threads.liveCount).toBe(1);
  });

  it('starts only so many threads at a time', async () => {
    const { threads, made } = pool({ startingAtOnce: 2 });
    const all = [1, 2, 3].map(() => threads.checkout(normal, start));
    expect(made).toHaveLength(2);
    expect(threads.queueLength).toBe(1);
    made[1]!.comesUp();
    await settled();
    expect(made).toHaveLength(3);
    made[0]!.comesUp();
    made[2]!.comesUp();
    expect(await Promise.all(all)).toEqual(made);
  });

  it('waits while the cap is reached, first come, first served', async () => {
    const state = pool({ maxThreads: 1 });
    const { threads, made } = state;
    const first = threads.checkout(normal, start);
    made[0]!.comesUp();
    await first;
    const order: string[] = [];
    const second = threads.checkout(normal, start).then(() => order.push('second'));
    const third = threads.checkout(normal, start).then(() => order.push('third'));
    await settled();
    expect(made).toHaveLength(1);
    expect(state.full).toBeGreaterThan(0);
    made[0]!.goes(undefined);
    await settled();
    made[1]!.comesUp();
    await second;
    made[1]!.goes(undefined);
    await settled();
    made[2]!.comesUp();
    await third;
    expect(order).toEqual(['second', 'third']);
  });

  it('of an accepted message goes before those of new starts, and is never refused', async () => {
    const { threads, made } = pool({ maxThreads: 1 });
    const first = threads.checkout(normal, start);
    made[0]!.comesUp();
    await first;
    const order: string[] = [];
    const told = (name: string) => () => void order.push(name);
    void threads.checkout(normal, start).then(told('start'));
    void threads.checkout(normal, start).catch(told('refused'));
    void threads.checkout(normal, wake).then(told('wake'));
    void threads.checkout(normal, wake).then(told('later wake'));
    expect(threads.refuseNewest(new SubagentError('CAPACITY', 'Full.'))).toBe(true);
    for (const index of [0, 1, 2]) {
      made[index]!.goes(undefined);
      await settled();
      made[index + 1]!.comesUp();
      await settled();
    }
    // Only wakes are left to refuse, and those are not.
    void threads.checkout(normal, wake);
    expect(threads.refuseNewest(new SubagentError('CAPACITY', 'Full.'))).toBe(false);
    expect(order).toEqual(['refused', 'wake', 'later wake', 'start']);
  });

  it('asks again who can give a thread up, after a start was refused and others wait', async () => {
    const state = pool({ maxThreads: 1 });
    const first = state.threads.checkout(normal, start);
    state.made[0]!.comesUp();
    await first;
    const waiting = [1, 2].map(() => state.threads.checkout(normal, start));
    for (const one of waiting) one.catch(() => {});
    await settled();
    expect(state.full).toBe(1);
    state.threads.refuseNewest(new SubagentError('CAPACITY', 'Full.'));
    await settled();
    expect(state.full).toBe(2);
    state.threads.refuseNewest(new SubagentError('CAPACITY', 'Full.'));
    await settled();
    expect(state.full).toBe(2);
  });

  it('ends at once when it is aborted while it waits', async () => {
    const { threads, made } = pool({ maxThreads: 1 });
    const first = threads.checkout(normal, start);
    made[0]!.comesUp();
    await first;
    const controller = new AbortController();
    const { signal } = controller;
    const reason = new Error('Changed my mind.');
    const waiting = threads.checkout(normal, { ...start, signal });
    controller.abort(reason);
    await expect(waiting).rejects.toBe(reason);
    expect(threads.queueLength).toBe(0);
    await expect(threads.checkout(normal, { ...start, signal })).rejects.toBe(reason);
  });

  it('gives a thread that comes up after its abort to the next in the queue', async () => {
    const { threads, made } = pool({ warm: 1, maxThreads: 1 });
    const controller = new AbortController();
    const aborted = threads.checkout(normal, { ...start, signal: controller.signal });
    const next = threads.checkout(normal, start);
    controller.abort(new Error('Changed my mind.'));
    await expect(aborted).rejects.toThrow('Changed my mind.');
    made[0]!.comesUp();
    expect(await next).toBe(made[0]);
    expect(made).toHaveLength(1);
  });

  it('gives back a thread that was handed over in the tick of its abort', async () => {
    const { threads, made } = pool({ warm: 1, maxThreads: 1 });
    const controller = new AbortController();
    const aborted = threads.checkout(normal, { ...start, signal: controller.signal });
    made[0]!.comesUp();
    // After the hand-over, before whoever asked goes on.
    void made[0]!.up.then(() => controller.abort(new Error('Too late.')));
    await expect(aborted).rejects.toThrow('Too late.');
    expect(await threads.checkout(normal, start)).toBe(made[0]);
    expect(made[0]!.asked).toEqual(['hold', 'let go', 'hold']);
  });
});

describe('threads are kept warm', () => {
  it('so many, one after another, and let go of', async () => {
    const { threads, made } = pool({ warm: 2, startingAtOnce: 1 });
    await settled();
    expect(made).toHaveLength(1);
    made[0]!.comesUp();
    await settled();
    expect(made).toHaveLength(2);
    made[1]!.comesUp();
    await settled();
    expect(made).toHaveLength(2);
    expect(made.map(({ asked }) => asked)).toEqual([['let go'], ['let go']]);
    expect(threads.liveCount).toBe(2);
  });

  it('serve the next checkout at once, and are replaced', async () => {
    const { threads, made } = pool({ warm: 1 });
    await settled();
    made[0]!.comesUp();
    await settled();
    expect(await threads.checkout(normal, start)).toBe(made[0]);
    await settled();
    expect(made).toHaveLength(2);
  });

  it('serve nobody whose limits are others', async () => {
    const { threads, made } = pool({ warm: 1 });
    await settled();
    made[0]!.comesUp();
    await settled();
    const checkout = threads.checkout(small, start);
    made[1]!.comesUp();
    expect(await checkout).toBe(made[1]);
  });

  it('make way for a start with other limits when the cap is reached', async () => {
    const state = pool({ warm: 1, maxThreads: 1 });
    const { threads, made } = state;
    await settled();
    made[0]!.comesUp();
    await settled();
    const checkout = threads.checkout(small, start);
    expect(made[0]!.killReason?.code).toBe('WORKER_EXITED');
    state.sweep();
    await settled();
    made[1]!.comesUp();
    expect(await checkout).toBe(made[1]);
    expect(state.full).toBe(0);
  });

  it('are not made beyond the cap, nor while somebody waits', async () => {
    const { threads, made } = pool({ warm: 3, maxThreads: 2 });
    const one = threads.checkout(normal, start);
    await settled();
    expect(made).toHaveLength(2);
    made[0]!.comesUp();
    made[1]!.comesUp();
    await one;
    await settled();
    expect(made).toHaveLength(2);
  });

  it('are replaced when one dies unused', async () => {
    const { threads, made } = pool({ warm: 1 });
    await settled();
    made[0]!.comesUp();
    await settled();
    made[0]!.goes(failure);
    await settled();
    expect(made).toHaveLength(2);
    expect(threads.liveCount).toBe(1);
  });

  it('are not tried again and again when they cannot start', async () => {
    const { threads, made } = pool({ warm: 2, startingAtOnce: 1 });
    await settled();
    made[0]!.goes(failure);
    await settled();
    expect(made).toHaveLength(1);
    // Somebody's start shows that it works again.
    const checkout = threads.checkout(normal, start);
    made[1]!.comesUp();
    await checkout;
    await settled();
    expect(made).toHaveLength(3);
  });
});

describe('that the queue cannot move is told', () => {
  it('when every thread has an agent', async () => {
    const state = pool({ maxThreads: 1 });
    const first = state.threads.checkout(normal, start);
    state.made[0]!.comesUp();
    await first;
    void state.threads.checkout(normal, start);
    expect(state.full).toBe(0);
    await settled();
    expect(state.full).toBe(1);
  });

  it('not while a thread is starting that will serve it', async () => {
    const state = pool({ warm: 1, maxThreads: 1 });
    const { threads, made } = state;
    await settled();
    const waiting = threads.checkout(normal, start);
    await settled();
    expect(state.full).toBe(0);
    made[0]!.comesUp();
    expect(await waiting).toBe(made[0]);
  });

  it('again when an agent may have become idle', async () => {
    const state = pool({ maxThreads: 1 });
    const first = state.threads.checkout(normal, start);
    state.made[0]!.comesUp();
    await first;
    state.threads.review();
    await settled();
    expect(state.full).toBe(0);
    void state.threads.checkout(normal, start);
    await settled();
    state.threads.review();
    await settled();
    expect(state.full).toBe(2);
  });
});

describe('closing', () => {
  it('refuses what waits and what starts, and waits for the end of unused threads', async () => {
    const state = pool({ maxThreads: 2, startingAtOnce: 1 });
    const { threads, made } = state;
    const starting = threads.checkout(normal, start);
    const waiting = threads.checkout(normal, wake);
    let isClosed = false;
    const closing = threads.close().then(() => (isClosed = true));
    await expect(starting).rejects.toMatchObject({ code: 'DRAINING' });
    await expect(waiting).rejects.toMatchObject({ code: 'DRAINING' });
    await expect(threads.checkout(normal, start)).rejects.toMatchObject({ code: 'DRAINING' });
    await settled();
    expect(isClosed).toBe(false);
    expect(made).toHaveLength(1);
    state.sweep();
    await closing;
    expect(threads.liveCount).toBe(0);
  });

  it('leaves the threads of agents to them', async () => {
    const { threads, made } = pool();
    const checkout = threads.checkout(normal, start);
    made[0]!.comesUp();
    await checkout;
    await threads.close();
    expect(made[0]!.killReason).toBeUndefined();
  });

  it('ends a thread that is given back in the same tick, before its checkout ends', async () => {
    const state = pool({ warm: 1 });
    const { threads, made } = state;
    const controller = new AbortController();
    const aborted = threads.checkout(normal, { ...start, signal: controller.signal });
    made[0]!.comesUp();
    void made[0]!.up.then(() => {
      controller.abort(new Error('Too late.'));
      void threads.close();
    });
    let isOver = false;
    const over = aborted.finally(() => (isOver = true)).catch((error: unknown) => error);
    await settled();
    expect(isOver).toBe(false);
    state.sweep();
    expect(await over).toMatchObject({ message: 'Too late.' });
  });
});
