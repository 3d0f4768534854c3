import { describe, expect, it, vi } from 'vitest';
import { ArgumentError, StoreError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Logger } from '../../src/base/logger.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { BATCH_WINDOW_MS } from '../../src/session/commit-queue.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import type { Session } from '../../src/session/session.ts';
import type { Durability } from '../../src/session/sessions.ts';
import { Sessions } from '../../src/session/sessions.ts';
import type { StoreAppend } from '../../src/session/store.ts';
import type { Gate } from '../support/gate.ts';
import { gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { until } from '../support/until.ts';
import { aSession, appendTurn, inStep, toolCall, typesOf, userMessage } from './log-parts.ts';

/** A store whose writes can be seen, held and refused. */
class WatchedStore extends MemoryStore {
  readonly batches: (readonly StoreAppend[])[] = [];
  refuse: ((batch: readonly StoreAppend[]) => Error | undefined) | undefined;
  hold: Gate | undefined;

  override async append(batch: readonly StoreAppend[]): Promise<void> {
    this.batches.push(batch);
    await this.hold?.wait();
    const refusal = this.refuse?.(batch);
    if (refusal !== undefined) throw refusal;
    await super.append(batch);
  }

  /** Which sessions each write held, and how many events of each. */
  get written(): readonly string[] {
    return this.batches.map((batch) =>
      batch.map(({ id, events }) => `${id}:${events.length}`).join(' '),
    );
  }
}

const full = (): StoreError => new StoreError('STORE_FULL', 'The disk is full.');

/** The code a promise rejects with, for one that rejects before it is asserted. */
const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: StoreError) => error.code,
  );

function setup(durability?: Durability) {
  const store = new WatchedStore();
  const clock = new ManualClock();
  const logger = { ...silentLogger, warn: vi.fn<Logger['warn']>() };
  const sessions = new Sessions({ store, clock, logger, ...(durability && { durability }) });
  return { store, clock, logger, sessions };
}

/** A session that is live and kept. */
function keep(sessions: Sessions, id = 'a'): Session {
  const session = sessions.prepare({ id: SessionId(id) });
  sessions.enter(session);
  sessions.accept(session);
  return session;
}

const a = SessionId('a');
const say = (session: Session, text = 'hi') => session.append('user/message', userMessage(text));

describe('preparing a session', () => {
  it('makes its header from what is given and the time', () => {
    const { sessions, clock } = setup();
    const meta = { cwd: '/work', origin: 'subagent', delegationDepth: 1, more: 1 } as const;
    const { header } = sessions.prepare({ id: a, meta });
    expect(header).toEqual({
      version: 0,
      id: 'a',
      createdAt: clock.now(),
      cwd: '/work',
      origin: 'subagent',
      delegationDepth: 1,
    });
    expect(sessions.prepare({}).id).not.toBe(sessions.prepare({}).id);
  });

  it('marks the end of a seed, also of an empty one, and only once', () => {
    const { sessions } = setup();
    expect(sessions.prepare({}).seq).toBe(0);
    expect(typesOf(sessions.prepare({ seed: [] }).events)).toEqual(['session/end-seed']);
    const seed = aSession();
    appendTurn(seed, 'one');
    const seeded = sessions.prepare({ seed: seed.events, meta: { seedLength: 6 } });
    expect(typesOf(seeded.eventsFrom(6))).toEqual(['session/end-seed']);
    expect(seeded.firstLiveSeq).toBe(6);
    expect(sessions.prepare({ seed: seeded.events }).seq).toBe(7);
  });

  it.each<[string, (sessions: Sessions) => unknown]>([
    ['an id that is live', (s) => s.prepare({ id: a })],
    ['an empty id', (s) => s.prepare({ id: SessionId('') })],
    ['a relative folder', (s) => s.prepare({ meta: { cwd: 'work' } })],
    ['a seed that ends inside a turn', (s) => s.prepare({ seed: inStep().events })],
    ['a seed with a gap', (s) => s.prepare({ seed: inStep().events.slice(1) })],
    ['more inherited events than the seed has', (s) => s.prepare({ meta: { seedLength: 1 } })],
  ])('is refused with %s', (_, prepare) => {
    const { sessions } = setup();
    keep(sessions);
    expect(() => prepare(sessions)).toThrow(ArgumentError);
  });
});

describe('a live session', () => {
  it('is found by its id, and listed in the order of entering', () => {
    const { sessions } = setup();
    const second = sessions.prepare({ id: SessionId('b') });
    const first = keep(sessions);
    expect(sessions.get(second.id)).toBeUndefined();
    sessions.enter(second);
    expect(sessions.get(second.id)).toBe(second);
    expect(sessions.list()).toEqual([first, second]);
  });

  it('tells what is appended from its entering to its leaving', async () => {
    const { sessions } = setup();
    const told: unknown[] = [];
    sessions.observers.on('session/created', ({ session }) => void told.push(session.id));
    sessions.observers.on('session/event', ({ event }) => void told.push(event.seq));
    sessions.observers.on('session/disposed', () => void told.push('gone'));
    const session = sessions.prepare({ id: a });
    say(session);
    sessions.enter(session);
    say(session);
    await sessions.leave(session);
    await sessions.leave(session);
    say(session);
    expect(told).toEqual(['a', 1, 'gone']);
  });

  it('goes on when a listener throws or appends to it', () => {
    const { sessions, logger } = setup();
    const session = keep(sessions);
    sessions.observers.on('session/event', () => void say(session));
    const told: number[] = [];
    sessions.observers.on('session/event', ({ event }) => void told.push(event.seq));
    say(session);
    say(session);
    expect([session.seq, told]).toEqual([2, [0, 1]]);
    expect(logger.warn).toHaveBeenCalledTimes(2);
  });

  it('is not live when a listener of its creation throws', async () => {
    const { sessions, store } = setup();
    const told: string[] = [];
    sessions.observers.on('session/created', () => {
      throw new Error('not this one');
    });
    sessions.observers.on('session/disposed', () => void told.push('gone'));
    const session = sessions.prepare({ id: a });
    expect(() => sessions.enter(session)).toThrow('not this one');
    expect([sessions.get(a), told]).toEqual([undefined, ['gone']]);
    await sessions.release(session);
    expect(store.batches).toEqual([]);
  });

  it('keeps another of its id out', () => {
    const { sessions } = setup();
    const other = sessions.prepare({ id: a });
    keep(sessions);
    expect(() => sessions.enter(other)).toThrow(ArgumentError);
    expect(() => sessions.enter(aSession())).toThrow(ArgumentError);
  });
});

describe('a session that is not accepted', () => {
  it('leaves no trace in the store, whatever is asked for it', async () => {
    const { sessions, store } = setup();
    const session = sessions.prepare({ id: a, seed: [] });
    sessions.enter(session);
    say(session);
    await sessions.flush(session);
    await sessions.leave(session);
    expect(store.batches).toEqual([]);
    expect(session.durable).toBe(0);
  });

  it('is written whole with its acceptance, in one write with what others append then', async () => {
    const { sessions, store } = setup();
    const parent = keep(sessions, 'parent');
    await parent.committed();
    const child = sessions.prepare({ id: SessionId('child'), seed: [] });
    sessions.enter(child);
    const committed = child.committed();
    say(child);
    say(parent);
    sessions.accept(child);
    say(child);
    sessions.accept(child);
    await Promise.all([committed, child.committed()]);
    expect(store.written).toEqual(['parent:0', 'parent:1 child:3']);
    expect(store.batches[1]?.[1]?.header).toBe(child.header);
    expect(child.durable).toBe(3);
  });

  it('rejects who waits for it to be committed, when it is given up', async () => {
    const { sessions } = setup();
    const session = sessions.prepare({ id: a });
    const committed = session.committed();
    await Promise.all([
      expect(committed).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' }),
      sessions.release(session),
    ]);
  });
});

describe('an acceptance whose write fails', () => {
  const failing = async () => {
    const t = setup();
    t.store.refuse = full;
    const session = keep(t.sessions);
    say(session);
    await expect(session.committed()).rejects.toMatchObject({ code: 'STORE_FULL' });
    t.store.refuse = undefined;
    return { ...t, session };
  };

  it('leaves no row when the session then leaves, whatever was appended meanwhile', async () => {
    const { sessions, store, session } = await failing();
    say(session);
    await sessions.leave(session);
    expect(await store.list()).toEqual([]);
    expect(store.batches).toHaveLength(1);
  });

  it('goes on failing until it is accepted again, and then holds everything', async () => {
    const { sessions, store, session } = await failing();
    say(session);
    await expect(session.committed()).rejects.toMatchObject({ code: 'STORE_FULL' });
    await expect(sessions.flush(session)).rejects.toMatchObject({ code: 'STORE_FULL' });
    sessions.accept(session);
    await session.committed();
    expect((await store.inspect(a)).events).toEqual(session.events);
  });
});

describe('commits', () => {
  it('hold what all sessions appended in one tick', async () => {
    const { sessions, store } = setup();
    const [one, two] = [keep(sessions, 'one'), keep(sessions, 'two')];
    say(one);
    say(two);
    await Promise.resolve();
    say(one);
    await Promise.all([one.committed(), two.committed()]);
    expect(store.written).toEqual(['one:2 two:1']);
  });

  it('are made one at a time; what comes meanwhile is the next one', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    await session.committed();
    store.hold = gate();
    say(session);
    const first = session.committed();
    await until(() => store.batches.length === 2);
    say(session);
    say(session);
    const second = session.committed();
    expect(session.durable).toBe(0);
    store.hold.open();
    await first;
    expect(session.durable).toBe(1);
    await second;
    expect([session.durable, store.written]).toEqual([3, ['a:0', 'a:1', 'a:2']]);
  });

  it('happen without anybody waiting for them', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    say(session);
    await until(() => session.durable === 1);
    expect(store.written).toEqual(['a:1']);
    await session.committed();
    await sessions.flush(session);
    expect(store.batches).toHaveLength(1);
  });
});

describe('a commit that fails', () => {
  it('rejects who waits for it; its events are written in order with the next one', async () => {
    const { sessions, store, logger } = setup();
    const session = keep(sessions);
    await session.committed();
    store.refuse = full;
    say(session, 'one');
    await expect(session.committed()).rejects.toMatchObject({ code: 'STORE_FULL' });
    expect(logger.warn).toHaveBeenCalledTimes(1);
    store.refuse = undefined;
    say(session, 'two');
    await until(() => session.durable === 2);
    expect((await store.inspect(a)).events).toEqual(session.events);
  });

  it('is made again by who asks, and by the next write of any session', async () => {
    const { sessions, store } = setup();
    const [one, two] = [keep(sessions, 'one'), keep(sessions, 'two')];
    await Promise.all([one.committed(), two.committed()]);
    store.refuse = () => new StoreError('STORE_IO', 'It failed.');
    say(one);
    await expect(sessions.flush(one)).rejects.toMatchObject({ code: 'STORE_IO' });
    await expect(one.committed()).rejects.toMatchObject({ code: 'STORE_IO' });
    store.refuse = undefined;
    say(two);
    await two.committed();
    expect([one.durable, two.durable]).toEqual([1, 1]);
  });

  it('does not reject who waits for a later one', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    await session.committed();
    const held = (store.hold = gate());
    store.refuse = () => {
      store.refuse = undefined;
      return full();
    };
    say(session);
    const first = codeOf(session.committed());
    await until(() => store.batches.length === 2);
    say(session);
    const second = session.committed();
    const flushed = sessions.flush(session);
    held.open();
    expect(await first).toBe('STORE_FULL');
    await Promise.all([second, flushed]);
    expect(session.durable).toBe(2);
  });

  it('is made again by a flush that came while it was under way', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    await session.committed();
    const held = (store.hold = gate());
    store.refuse = () => {
      store.refuse = undefined;
      return full();
    };
    say(session);
    await until(() => store.batches.length === 2);
    const flushed = sessions.flush(session);
    held.open();
    await flushed;
    expect([session.durable, store.written]).toEqual([1, ['a:0', 'a:1', 'a:1']]);
  });

  it('fails no neighbour of the session it is about, and tells when that one is lost', async () => {
    const { sessions, store } = setup();
    const [one, two] = [keep(sessions, 'one'), keep(sessions, 'two')];
    await Promise.all([one.committed(), two.committed()]);
    const lost: string[] = [];
    sessions.observers.on('session/lost', ({ session, error }) => {
      lost.push(`${session.id} ${error.code}`);
    });
    await store.acquire(one.id);
    say(one);
    say(two);
    const gone = codeOf(one.committed());
    await two.committed();
    expect(await gone).toBe('STALE_EPOCH');
    say(one);
    await expect(one.committed()).rejects.toMatchObject({ code: 'STALE_EPOCH' });
    await expect(sessions.flush(one)).rejects.toMatchObject({ code: 'STALE_EPOCH' });
    expect(lost).toEqual(['one STALE_EPOCH']);
    expect((await store.inspect(one.id)).events).toEqual([]);
    await sessions.leave(one);
    expect(store.written).toEqual(['one:0 two:0', 'one:1 two:1', 'one:1', 'two:1']);
  });

  it('writes a session that alone is refused apart from the others, and warns once', async () => {
    const { sessions, store, logger } = setup();
    const [bad, good] = [keep(sessions, 'bad'), keep(sessions, 'good')];
    await Promise.all([bad.committed(), good.committed()]);
    store.refuse = (batch) => (batch.some(({ id }) => id === 'bad') ? full() : undefined);
    for (let round = 1; round <= 3; round++) {
      say(bad);
      say(good);
      const refused = codeOf(bad.committed());
      await good.committed();
      expect(await refused).toBe('STORE_FULL');
    }
    expect(good.durable).toBe(3);
    expect(store.written.slice(1)).toEqual(
      ['bad:1 good:1', 'bad:1', 'good:1', 'good:1', 'bad:2', 'good:1', 'bad:3'],
    ); // prettier-ignore
    expect(logger.warn).toHaveBeenCalledTimes(1);
  });

  it('is a failure of the store when what it throws is no error of a store', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    store.refuse = () => new TypeError('a fault');
    await expect(session.committed()).rejects.toMatchObject({ name: 'StoreError' });
  });
});

describe('batched durability', () => {
  it('does not make anybody wait, and gathers for a while', async () => {
    const { sessions, store, clock } = setup('batched');
    const session = keep(sessions);
    say(session);
    await session.committed();
    await clock.advance(BATCH_WINDOW_MS - 1);
    say(session);
    expect(store.batches).toEqual([]);
    await clock.advance(1);
    expect(store.written).toEqual(['a:2']);
  });

  it('writes the rest when it is flushed or leaves', async () => {
    const { sessions, store } = setup('batched');
    const session = keep(sessions);
    say(session);
    await sessions.flush(session);
    say(session);
    await sessions.leave(session);
    expect(store.written).toEqual(['a:1', 'a:1']);
  });
});

describe('leaving', () => {
  it('writes the rest first, then gives the session back and tells', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    const order: string[] = [];
    vi.spyOn(store, 'release').mockImplementation(async () => {
      order.push(`released at ${session.durable}`);
    });
    sessions.observers.on('session/disposed', () => void order.push('told'));
    say(session);
    const leaving = sessions.leave(session);
    expect(sessions.get(a)).toBe(session);
    await leaving;
    expect(order).toEqual(['released at 1', 'told']);
    expect(sessions.get(a)).toBeUndefined();
  });

  it('rejects when the rest cannot be written, and has left all the same', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    await session.committed();
    store.refuse = full;
    say(session);
    await expect(sessions.leave(session)).rejects.toMatchObject({ code: 'STORE_FULL' });
    expect(sessions.list()).toEqual([]);
    store.refuse = undefined;
    expect((await sessions.load(a)).seq).toBe(1);
  });

  it('is waited for by who reads or loads the same session', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    await session.committed();
    store.hold = gate();
    say(session);
    const leaving = sessions.leave(session);
    const [inspected, loaded] = [sessions.inspect(a), sessions.load(a)];
    store.hold.open();
    await leaving;
    expect((await inspected).events).toHaveLength(1);
    expect(typesOf((await loaded).events)).toEqual(['user/message', 'session/end-seed']);
  });
});

describe('loading', () => {
  /** A store that holds what a process left that was killed. */
  async function crashed(log: readonly SessionEvent[]) {
    const t = setup();
    const header = { version: 0, id: a, createdAt: 1 } as const;
    await t.store.append([{ id: a, epoch: 1, header, events: log }]);
    t.store.batches.length = 0;
    return t;
  }

  it('closes the turn that a crash cut off, durably, and marks the end of that life', async () => {
    const cut = inStep();
    cut.append('tool/call', toolCall('c'));
    const { sessions, store } = await crashed(cut.events);
    const session = await sessions.load(a);
    const closed = [...typesOf(cut.events), 'tool/result', 'step/end', 'turn/end'];
    expect(typesOf((await store.inspect(a)).events)).toEqual(closed);
    expect(typesOf(session.events)).toEqual([...closed, 'session/end-seed']);
    expect([session.firstLiveSeq, session.durable, session.open]).toEqual([6, 6, undefined]);
    await session.committed();
    expect(store.written).toEqual(['a:3', 'a:1']);
    expect(sessions.list()).toEqual([]);
  });

  it('adds nothing to a log that ends with the mark', async () => {
    const left = aSession();
    left.append('session/end-seed', {});
    const { sessions, store } = await crashed(left.events);
    const session = await sessions.load(a);
    await sessions.release(session);
    expect(store.batches).toEqual([]);
  });

  it('takes the session over: whoever held it before can write no more', async () => {
    const { sessions, store } = await crashed([]);
    const session = await sessions.load(a);
    sessions.enter(session);
    say(session);
    await session.committed();
    expect(store.batches.at(-1)?.[0]?.epoch).toBe(2);
  });

  it('is refused while the session is live or loaded, and possible again after release', async () => {
    const { sessions } = await crashed([]);
    const loading = sessions.load(a);
    await expect(sessions.load(a)).rejects.toThrow(ArgumentError);
    const session = await loading;
    await expect(sessions.load(a)).rejects.toThrow(ArgumentError);
    expect(() => sessions.prepare({ id: a })).toThrow(ArgumentError);
    await sessions.release(session);
    sessions.enter(await sessions.load(a));
    await expect(sessions.load(a)).rejects.toThrow(ArgumentError);
  });

  it('fails for a session that is not there, and can be tried again', async () => {
    const { sessions } = setup();
    await expect(sessions.load(a)).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
    await expect(sessions.load(a)).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
  });

  it('gives the session back when its log is damaged, when a write fails, when it is aborted', async () => {
    const [start] = inStep().events as [SessionEvent];
    const broken = [start, { ...start, seq: 1 }];
    const { sessions, store } = await crashed(broken);
    const released = vi.spyOn(store, 'release');
    await expect(sessions.load(a)).rejects.toMatchObject({ code: 'STORE_CORRUPT' });
    expect(store.batches).toEqual([]);
    await store.delete([a]);
    await store.append([
      { id: a, epoch: 1, header: { version: 0, id: a, createdAt: 1 }, events: [start] },
    ]);
    store.refuse = full;
    await expect(sessions.load(a)).rejects.toMatchObject({ code: 'STORE_FULL' });
    const stop = new AbortController();
    const loading = sessions.load(a, stop.signal);
    await Promise.resolve();
    stop.abort(new Error('enough'));
    await expect(loading).rejects.toThrow('enough');
    expect(released.mock.calls.length).toBeGreaterThanOrEqual(2);
    store.refuse = undefined;
    expect((await sessions.load(a)).lastTurn).toBe(1);
  });
});

describe('inspecting', () => {
  it('shows a live session as it is, perhaps inside a turn', async () => {
    const { sessions } = setup();
    const session = sessions.prepare({ id: a });
    sessions.enter(session);
    session.append('turn/start', { turn: 1 });
    expect(await sessions.inspect(a)).toEqual({ header: session.header, events: session.events });
  });

  it('shows a stored session as it would be resumed, and writes nothing', async () => {
    const { sessions, store } = setup();
    const header = { version: 0, id: a, createdAt: 1 } as const;
    const { events } = inStep();
    await store.append([{ id: a, epoch: 1, header, events }]);
    expect(typesOf((await sessions.inspect(a)).events)).toEqual([
      'turn/start',
      'step/start',
      'step/end',
      'turn/end',
    ]);
    expect((await store.inspect(a)).events).toEqual(events);
  });
});

describe('closing', () => {
  it('writes what is left of every session, gives them back, and closes the store', async () => {
    await using t = tempStore();
    const options = { clock: new ManualClock(), logger: silentLogger };
    const sessions = new Sessions({ store: t.store, ...options });
    const [one, two] = [keep(sessions, 'one'), keep(sessions, 'two')];
    const prepared = sessions.prepare({ id: SessionId('three') });
    const disposed: string[] = [];
    sessions.observers.on('session/disposed', ({ session }) => void disposed.push(session.id));
    say(one);
    say(two);
    say(prepared);
    await Promise.all([sessions.close(), sessions.close()]);
    expect(disposed).toEqual(['one', 'two']);
    expect(() => sessions.prepare({})).toThrow(ArgumentError);
    const again = new Sessions({ store: t.open(), ...options });
    expect((await again.store.list()).map(({ id }) => id).toSorted()).toEqual(['one', 'two']);
    expect(typesOf((await again.load(one.id)).events)).toEqual([
      'user/message',
      'session/end-seed',
    ]);
    await again.close();
  });

  it('closes the store though a session cannot be written, and says so', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    await session.committed();
    const close = vi.spyOn(store, 'close');
    store.refuse = full;
    say(session);
    await expect(sessions.close()).rejects.toMatchObject({ code: 'STORE_FULL' });
    expect(close).toHaveBeenCalled();
  });
});
