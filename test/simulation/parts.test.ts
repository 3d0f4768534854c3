import { describe, expect, it } from 'vitest';
import { pack } from '../../protocol/codec.ts';
import { StoreError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import { EPOCH, Life } from './life.ts';
import { planOf } from './plan.ts';
import { simPorts } from './sim-port.ts';
import { SimStore, answerable } from './sim-store.ts';
import { SimThread } from './sim-thread.ts';

const life = (): Life => new Life(() => EPOCH);
const ID = 'one' as SessionId;
const append = (store: SimStore): Promise<void> =>
  store.append([
    { id: ID, epoch: 1, header: { version: 0, id: ID, createdAt: EPOCH }, events: [] },
  ]);

describe('a simulated port', () => {
  it('keeps what was posted in its order, and tells of the close behind it', () => {
    const [main, worker] = simPorts();
    const heard: unknown[] = [];
    main.on('message', (value: unknown) => heard.push(value));
    main.on('close', () => heard.push('close'));
    worker.postMessage('one');
    worker.postMessage('two');
    worker.close();
    worker.postMessage('lost');
    while (main.canDeliver) main.deliver();
    expect(heard).toEqual(['one', 'two', 'close']);
  });

  it('holds what nobody has listened for, and gives it to whoever drains it', () => {
    const [main, worker] = simPorts();
    worker.postMessage('one');
    worker.close();
    expect(main.canDeliver).toBe(false);
    expect([main.take(), main.take()]).toEqual([{ message: 'one' }, undefined]);
  });

  it('shares no memory', () => {
    const [main, worker] = simPorts();
    const bytes = new Uint8Array([1]);
    worker.postMessage(bytes);
    bytes[0] = 2;
    expect(main.take()).toEqual({ message: new Uint8Array([1]) });
  });
});

describe('a simulated thread', () => {
  const thread = (of = life()): SimThread =>
    new SimThread(of, { modules: () => ({}) }, 7, {
      resourceLimits: { maxOldGenerationSizeMb: 64 },
    });

  it('says that it is up, once somebody lets it run', () => {
    const one = thread();
    const heard: unknown[] = [];
    one.on('message', (value) => heard.push(value));
    expect([one.canTell, one.isReady]).toEqual([false, true]);
    one.step(true);
    one.tell();
    expect(heard).toHaveLength(1);
  });

  it('tells what it threw before its exit, and neither before it is let', () => {
    const one = thread();
    const told: unknown[] = [];
    one.on('error', ({ code }: { code: string }) => told.push(code));
    one.on('exit', (code) => told.push(code));
    one.step(true);
    one.die('out of memory');
    expect(told).toEqual([]);
    one.exit();
    one.exit();
    expect(told).toEqual(['ERR_WORKER_OUT_OF_MEMORY', 1]);
    expect(one.isForgotten).toBe(true);
  });

  it('is not ended by force when it is stuck', () => {
    const one = thread();
    one.step(true);
    one.isHung = one.isStuck = true;
    void one.terminate();
    expect([one.canExit, one.isReady, one.terminatedAt]).toEqual([false, false, EPOCH]);
  });

  it('does nothing after its end', () => {
    const one = thread();
    one.step(true);
    one.defer(() => expect.unreachable());
    void one.terminate();
    expect([one.isReady, one.canExit]).toEqual([false, true]);
  });
});

describe('a simulated store', () => {
  it('writes in the order in which it was asked, and reads whenever it is let', async () => {
    const own = life();
    const store = new SimStore(own, new MemoryStore());
    const written = [append(store), store.release()];
    void store.list();
    expect(answerable(own.calls, EPOCH).map(({ what }) => what)).toEqual(['append', 'list']);
    await own.calls[0]?.finish();
    await written[0];
    expect(answerable(own.calls, EPOCH).map(({ what }) => what)).toEqual(['release', 'list']);
  });

  it('keeps nothing of a write that it fails', async () => {
    const own = life();
    const disk = new MemoryStore();
    const written = append(new SimStore(own, disk));
    own.calls[0]?.fail(new StoreError('STORE_IO', 'No.'));
    await expect(written).rejects.toMatchObject({ code: 'STORE_IO' });
    expect(await disk.list()).toEqual([]);
  });

  it('answers nobody when its process is dead, whether or not the write was made', async () => {
    const own = life();
    const disk = new MemoryStore();
    let isAnswered = false;
    void append(new SimStore(own, disk)).then(() => (isAnswered = true));
    const [write] = own.calls;
    own.end();
    await write?.doOnly();
    expect([isAnswered, (await disk.list()).length, own.calls.length]).toEqual([false, 1, 0]);
  });
});

describe('a life of main', () => {
  it('keeps timers by time, then in the order in which they were set', () => {
    const own = life();
    const ran: string[] = [];
    for (const [name, ms] of [
      ['late', 5],
      ['first', 1],
      ['second', 1],
    ] as const) {
      own.clock.after(ms, () => ran.push(name));
    }
    own.clock.after(3, () => ran.push('never')).cancel();
    for (const timer of own.timers) timer.run();
    expect(ran).toEqual(['first', 'second', 'late']);
  });

  it('does nothing more once it is over', () => {
    const own = life();
    own.end();
    own.immediate(() => {});
    own.clock.after(1, () => {});
    void own.wait('nobody');
    expect([own.immediates, own.timers, own.waits]).toEqual([[], [], []]);
  });
});

describe('a plan', () => {
  it('is the same for a seed each time, and has no faults for some', () => {
    const plans = Array.from({ length: 100 }, (_, seed) => planOf(seed).plan);
    expect(planOf(17).plan).toEqual(plans[17]);
    expect(plans.some(({ faults, lates }) => faults + lates === 0)).toBe(true);
    expect(plans.some(({ faults }) => faults > 1)).toBe(true);
  });

  it('can be cut, and is the same otherwise', () => {
    const { plan } = planOf(17);
    expect(planOf(17, { acts: 1 }).plan).toEqual({ ...plan, acts: 1 });
  });
});

describe('the bytes of a thread', () => {
  it('cannot be told apart from those of a real one', () => {
    const [main, worker] = simPorts();
    worker.postMessage(pack({ type: 'ack', taken: 1 }));
    expect(main.take()?.message).toBeInstanceOf(Uint8Array);
  });
});
