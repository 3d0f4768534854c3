/** What a store keeps after its refusal was told, and how long a session is held for that. */
import { describe, expect, it, vi } from 'vitest';
import type { SessionId } from '../../protocol/ids.ts';
import { StoreError } from '../../protocol/errors.ts';
import { SessionId as sessionId } from '../../protocol/ids.ts';
import { gate } from '../../src/base/gate.ts';
import type { Logger } from '../../src/base/logger.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import type { OnLost } from '../../src/session/store.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { a, codeOf, keep, say, WatchedStore } from './watched-store.ts';

class Told extends WatchedStore {
  readonly calls: string[] = [];
  lost: OnLost | undefined;
  override async append(...args: Parameters<WatchedStore['append']>): Promise<void> {
    await super.append(...args);
    this.calls.push('append');
  }
  override async release(): Promise<void> {
    this.calls.push('release');
  }
  override async delete(ids: readonly SessionId[]): Promise<void> {
    this.calls.push('delete');
    await super.delete(ids);
  }
  override async close(): Promise<void> {
    this.calls.push('close');
  }
  onLost(listener: OnLost): () => void {
    this.lost = listener;
    return () => {};
  }
}

function setup() {
  const store = new Told();
  const clock = new ManualClock();
  const sessions = new Sessions({ store, clock, logger: silentLogger, patienceMs: 2_000 });
  /** Its end is not waited for any more, while a write of it is in flight. */
  const leave = async (session: ReturnType<typeof keep>) => {
    const left = codeOf(sessions.leave(session));
    await clock.advance(2_000);
    expect(await left).toBe('STORE_IO');
  };
  return { store, clock, sessions, leave };
}

const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

describe('a write that is kept after its session was given up', () => {
  it('leaves no row when it was the first, and its acceptance was refused', async () => {
    const { sessions, store, leave } = setup();
    const hold = gate();
    store.hold = hold;
    const session = keep(sessions);
    say(session);
    const refused = codeOf(session.committed());
    await hold.arrived();
    await leave(session);
    expect(await refused).toBe('STORE_IO');
    hold.open();
    await settled();
    expect(store.calls).toEqual(['append', 'delete', 'release']);
    expect(await store.list()).toEqual([]);
  });

  it('is all there with what came later when nobody was told of a refusal', async () => {
    const { sessions, store, leave } = setup();
    const hold = gate();
    store.hold = hold;
    const session = keep(sessions);
    say(session);
    await hold.arrived();
    say(session);
    await leave(session);
    hold.open();
    await settled();
    expect(store.calls).toEqual(['append', 'append', 'release']);
    expect((await store.inspect(a)).events).toEqual(session.events);
  });

  it('is followed by what takes back the refused, before the session is free', async () => {
    const { sessions, store, leave } = setup();
    const session = keep(sessions);
    say(session);
    await session.committed();
    const hold = gate();
    store.hold = hold;
    say(session, 'refused');
    const withdrawn = session.committed().catch(() => say(session, 'withdrawn'));
    await hold.arrived();
    await leave(session);
    await withdrawn;
    store.hold = undefined;
    const loading = sessions.load(a);
    await settled();
    expect(store.calls).toEqual(['append']);
    hold.open();
    const again = await loading;
    expect(store.calls).toEqual(['append', 'append', 'append', 'release']);
    expect(again.eventsFrom(0, 3)).toEqual(session.events);
    expect(session.events).toHaveLength(3);
  });

  it('adds nothing when it failed', async () => {
    const { sessions, store, leave } = setup();
    const session = keep(sessions);
    say(session);
    await session.committed();
    const hold = gate();
    store.hold = hold;
    store.refuse = () => new Error('Broken.');
    say(session);
    session.committed().catch(() => say(session));
    await hold.arrived();
    await leave(session);
    hold.open();
    await settled();
    expect(store.calls).toEqual(['append', 'release']);
    expect((await store.inspect(a)).events).toHaveLength(1);
  });

  it('is taken back before its store is closed', async () => {
    const { sessions, store, clock } = setup();
    const hold = gate();
    store.hold = hold;
    const session = keep(sessions);
    say(session);
    const refused = codeOf(session.committed());
    await hold.arrived();
    const closed = sessions.close().then(
      () => 'closed',
      ({ message }: Error) => message,
    );
    await clock.advance(10_000);
    expect(await closed).toContain('The store');
    expect(await refused).toBe('STORE_IO');
    hold.open();
    await settled();
    expect(store.calls).toEqual(['append', 'delete', 'release', 'close']);
  });
});

it('writes very many sessions in parts, with time for others in between', async () => {
  const { sessions, store } = setup();
  const all = Array.from({ length: 250 }, (_, index) => keep(sessions, `s${index}`));
  for (const session of all) say(session);
  let ticks = 0;
  const { append } = store;
  const seen: number[] = [];
  store.append = async (batch) => {
    seen.push(ticks);
    await append.call(store, batch);
  };
  const tick = (): void => {
    ticks++;
    if (store.batches.length < 3) setImmediate(tick);
  };
  setImmediate(tick);
  await Promise.all(all.map((session) => session.committed()));
  expect(store.batches.map(({ length }) => length)).toEqual([100, 100, 50]);
  expect(new Set(seen).size).toBe(3);
});

it('ends the keeping of a session that its store finds to be lost, of that very life', async () => {
  const { sessions, store } = setup();
  const session = keep(sessions);
  say(session);
  await session.committed();
  const epoch = store.batches[0]![0]!.epoch;
  const lost: string[] = [];
  sessions.observers.on('session/lost', (of) => lost.push(`${of.session.id} ${of.error.code}`));
  const error = { name: 'StoreError', code: 'STALE_EPOCH' } as StoreError;
  store.lost?.(a, epoch - 1, error);
  store.lost?.(sessionId('b'), epoch, error);
  expect(lost).toEqual([]);
  store.lost?.(a, epoch, error);
  expect(lost).toEqual(['a STALE_EPOCH']);
  say(session);
  expect(await codeOf(session.committed())).toBe('STALE_EPOCH');
  await sessions.leave(session);
  expect(store.calls).toEqual(['append']);
});

describe('what was refused and could not be taken back', () => {
  /** A start, or a message, is refused while its write is in flight, and kept after that. */
  async function late(what: 'start' | 'message') {
    const store = new Told();
    const clock = new ManualClock();
    const logger = { ...silentLogger, error: vi.fn<Logger['error']>() };
    const sessions = new Sessions({ store, clock, logger, patienceMs: 2_000 });
    const session = keep(sessions);
    if (what === 'message') {
      say(session);
      await session.committed();
    }
    const hold = gate();
    store.hold = hold;
    say(session, 'refused');
    const refused = session.committed().catch(() => say(session, 'withdrawn'));
    await hold.arrived();
    const left = codeOf(sessions.leave(session));
    await clock.advance(2_000);
    expect(await left).toBe('STORE_IO');
    await refused;
    store.hold = undefined;
    store.calls.length = 0;
    const broken = { tries: 0, isOver: false };
    const fail = (): void => {
      broken.tries++;
      if (!broken.isOver) throw new StoreError('STORE_IO', 'The disk failed.');
    };
    const { append } = store;
    store.append = async (batch) => {
      fail();
      await append.call(store, batch);
    };
    const remove = store.delete.bind(store);
    store.delete = async (ids) => {
      fail();
      await remove(ids);
    };
    hold.open();
    await settled();
    return { store, clock, logger, sessions, session, broken };
  }
  const isLeft = async (store: Told): Promise<number> =>
    (await store.inspect(a).catch(() => undefined))?.events.length ?? 0;

  it.each([
    ['start', 'delete', 0],
    ['message', 'append', 3],
  ] as const)('is tried again when it is a %s, and held until then', async (what, call, length) => {
    const t = await late(what);
    expect(t.broken.tries).toBe(1);
    await t.clock.advance(50);
    expect(t.broken.tries).toBe(2);
    expect(t.store.calls).not.toContain('release');
    t.broken.isOver = true;
    await t.clock.advance(100);
    await settled();
    expect(t.store.calls.slice(-2)).toEqual([call, 'release']);
    expect(await isLeft(t.store)).toBe(length);
    expect(t.logger.error).not.toHaveBeenCalled();
    await t.sessions.close();
  });

  it('keeps a session held after that, says so, and goes on trying', async () => {
    const t = await late('message');
    for (let step = 0; step < 40; step++) await t.clock.advance(50);
    await settled();
    expect(t.logger.error.mock.calls.map(([fields]) => fields)).toMatchObject([
      { sessions: ['a'] },
    ]);
    const { tries } = t.broken;
    await t.clock.advance(5_000);
    await settled();
    expect(t.broken.tries).toBe(tries + 1);
    expect(t.store.calls).not.toContain('release');
    t.broken.isOver = true;
    await t.clock.advance(5_000);
    await settled();
    expect(t.store.calls.slice(-2)).toEqual(['append', 'release']);
    expect(t.logger.error).toHaveBeenCalledTimes(1);
    await t.sessions.close();
  });

  it('is taken back before the next load, which fails as long as it cannot be', async () => {
    const t = await late('message');
    for (let step = 0; step < 40; step++) await t.clock.advance(50);
    await settled();
    expect(await codeOf(t.sessions.load(a))).toBe('STORE_IO');
    expect(t.store.calls).not.toContain('release');
    t.broken.isOver = true;
    const again = await t.sessions.load(a);
    expect(again.eventsFrom(0, 3)).toEqual(t.session.events);
    expect(t.session.events).toHaveLength(3);
    await t.sessions.release(again);
    const { tries } = t.broken;
    await t.clock.advance(20_000);
    expect(t.broken.tries).toBe(tries);
    await t.sessions.close();
  });

  it('is tried once more before the store is closed, and named when it stays', async () => {
    const t = await late('message');
    for (let step = 0; step < 40; step++) await t.clock.advance(50);
    await settled();
    const { tries } = t.broken;
    await expect(t.sessions.close()).rejects.toThrow(
      'What was refused could not be taken back, and runs when it is resumed: `a`.',
    );
    expect(t.broken.tries).toBe(tries + 1);
    expect(t.store.calls.at(-1)).toBe('close');
    await t.clock.advance(20_000);
    expect(t.broken.tries).toBe(tries + 1);
  });

  it('is nobody else’s concern once another process has the session', async () => {
    const t = await late('message');
    t.store.append = () => Promise.reject(new StoreError('STALE_EPOCH', 'Another has it.'));
    await t.clock.advance(50);
    await settled();
    await t.sessions.close();
    expect(t.logger.error).not.toHaveBeenCalled();
  });
});

describe('a store that answers only after the end of all', () => {
  const calls = {
    append: (sessions: Sessions) => void say(sessions.get(a)!),
    release: () => {},
  } as const;

  it.each(Object.keys(calls) as (keyof typeof calls)[])(
    'is closed then, when it is silent to %s',
    async (method) => {
      const { sessions, store, clock } = setup();
      say(keep(sessions));
      await sessions.flush(sessions.get(a)!);
      const hold = gate();
      const answer = store[method].bind(store) as (...args: unknown[]) => Promise<unknown>;
      store[method] = (async (...args: unknown[]) => {
        await hold.wait();
        return answer(...args);
      }) as never;
      calls[method](sessions);
      await settled();
      const closed = sessions.close().catch(() => {});
      await settled();
      for (let step = 0; step < 10; step++) await clock.advance(500);
      await closed;
      hold.open();
      for (let step = 0; step < 5; step++) await settled();
      expect(store.calls.at(-1)).toBe('close');
      expect(store.calls.filter((call) => call === 'close')).toHaveLength(1);
    },
  );
});
