/** Threads are real; jobs say how they end. */
import { getEventListeners } from 'node:events';
import { availableParallelism } from 'node:os';
import { afterEach, describe, expect, it } from 'vitest';
import { WorkerError } from '../../protocol/errors.ts';
import { systemClock } from '../../src/base/clock.ts';
import { census } from '../../src/base/census.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Offload } from '../../src/base/offload.ts';
import type { OffloadOptions } from '../../src/base/offload.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { until } from '../support/until.ts';

const entry = new URL('./fixtures/job.mjs', import.meta.url);
const opened: Offload[] = [];

function offload(options: Partial<OffloadOptions> = {}): Offload {
  const made = new Offload({
    entry,
    clock: systemClock,
    logger: silentLogger,
    threads: 1,
    ...options,
  });
  opened.push(made);
  return made;
}

afterEach(async () => {
  await Promise.all(opened.splice(0).map((one) => one.close()));
});

const cell = (): Int32Array => new Int32Array(new SharedArrayBuffer(4));

describe('work off the main thread', () => {
  it('needs no thread before the first job, and one thread for one after another', async () => {
    const work = offload();
    expect(census.open()['offload']).toBeUndefined();
    const ids = [];
    for (let n = 0; n < 3; n++) ids.push(await work.run<number>({ how: 'thread' }, []));
    expect(new Set(ids).size).toBe(1);
    expect(ids[0]).toBeGreaterThan(0);
    expect(census.open()['offload']).toBe(1);
    await work.close();
    expect(census.open()['offload']).toBeUndefined();
  });

  it('gives what is transferred away', async () => {
    const value = new Uint8Array(1_000);
    expect(await offload().run({ how: 'bytes', value }, [value.buffer])).toBe(1_000);
    expect(value.byteLength).toBe(0);
  });

  it.each([
    ['throw', 'WORKER_CRASHED', {}],
    ['exit', 'WORKER_EXITED', {}],
    ['fill', 'WORKER_OUT_OF_MEMORY', { memoryMb: 32 }],
  ])('fails one job that ends with `%s`, as %s, and the next goes on', async (how, code, more) => {
    const work = offload(more);
    const [bad, good] = [work.run({ how }, []), work.run({ how: 'return', value: 4 }, [])];
    await expect(bad).rejects.toMatchObject({ name: 'WorkerError', code });
    expect(await good).toBe(4);
  });

  it('ends a job that takes too long, and its thread with it', async () => {
    const clock = new ManualClock();
    const work = offload({ clock, deadlineMs: 500 });
    const spins = cell();
    const bad = work.run({ how: 'spin', cell: spins.buffer }, []);
    bad.catch(() => {});
    const good = work.run({ how: 'return', value: 4 }, []);
    await until(() => Atomics.load(spins, 0) === 1);
    await clock.advance(499);
    expect(clock.pending).toBe(1);
    await clock.advance(1);
    await expect(bad).rejects.toMatchObject({ code: 'WORKER_UNRESPONSIVE' });
    // What waited for the thread has its whole time from now on.
    expect(await good).toBe(4);
  });

  it('ends a job with the signal of who asked for it, and with its reason', async () => {
    const work = offload();
    const [spins, stop, early] = [cell(), new AbortController(), new AbortController()];
    const running = work.run({ how: 'spin', cell: spins.buffer }, [], stop.signal);
    const waiting = work.run({ how: 'return' }, [], early.signal);
    await until(() => Atomics.load(spins, 0) === 1);
    early.abort('early');
    await expect(waiting).rejects.toBe('early');
    stop.abort('stop');
    await expect(running).rejects.toBe('stop');
    await expect(work.run({ how: 'return' }, [], stop.signal)).rejects.toBe('stop');
    expect(await work.run({ how: 'return', value: 4 }, [])).toBe(4);
  });

  it('fails what is running and what waits when it is closed, and takes nothing more', async () => {
    const work = offload();
    const spins = cell();
    const jobs = [
      work.run({ how: 'spin', cell: spins.buffer }, []),
      work.run({ how: 'return' }, []),
    ];
    const ends = Promise.allSettled(jobs);
    await until(() => Atomics.load(spins, 0) === 1);
    await work.close();
    for (const end of await ends) {
      expect((end as PromiseRejectedResult).reason).toMatchObject({ code: 'WORKER_EXITED' });
    }
    await expect(work.run({ how: 'return' }, [])).rejects.toBeInstanceOf(WorkerError);
  });

  it('is closed before its first thread is there', async () => {
    const work = offload();
    const job = work.run({ how: 'return' }, []);
    await Promise.all([expect(job).rejects.toMatchObject({ code: 'WORKER_EXITED' }), work.close()]);
  });

  const ofThisComputer = Math.min(4, Math.max(1, availableParallelism() - 1));
  it.each([
    ['it is given', { threads: 2 }, 2],
    ['leave one processor to the others', { threads: undefined }, ofThisComputer],
  ])('runs as many jobs at once as the threads that %s', async (_, given, most) => {
    const { threads } = given;
    const work = new Offload({
      entry,
      clock: systemClock,
      logger: silentLogger,
      ...(threads && { threads }),
    });
    opened.push(work);
    const cells = Array.from({ length: most + 2 }, cell);
    const jobs = cells.map(({ buffer }) => work.run<number>({ how: 'wait', cell: buffer }, []));
    await until(() => cells.slice(0, most).every((one) => Atomics.load(one, 0) === 1));
    for (const held of cells.toReversed()) Atomics.store(held, 0, 2);
    expect(new Set(await Promise.all(jobs)).size).toBe(most);
  });

  it('gives its threads nothing of what the program was started with', async () => {
    expect(process.execArgv).not.toEqual([]);
    expect(await offload().run({ how: 'around' }, [])).toEqual({ env: [], flags: [] });
  });

  it('keeps nothing of a job that is over', async () => {
    const clock = new ManualClock();
    const { signal } = new AbortController();
    await offload({ clock }).run({ how: 'return' }, [], signal);
    expect(clock.pending).toBe(0);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('does not begin a job whose signal aborts while the first thread is on its way', async () => {
    const stop = new AbortController();
    const job = offload().run({ how: 'return' }, [], stop.signal);
    stop.abort('early');
    await expect(job).rejects.toBe('early');
  });

  it('outlives a thread that ends by itself, and says so', async () => {
    const told: object[] = [];
    const work = offload({ logger: { ...silentLogger, warn: (fields) => void told.push(fields) } });
    const left = cell();
    const first = await work.run<number>({ how: 'leave', cell: left.buffer }, []);
    Atomics.store(left, 0, 2);
    await until(() => told.length === 1);
    expect(told).toMatchObject([{ error: { message: 'left behind' } }]);
    expect(await work.run<number>({ how: 'thread' }, [])).not.toBe(first);
  });
});
