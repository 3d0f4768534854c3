import { describe, expect, it, vi } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { stored } from './following.ts';
import { turnsDuring } from './lines.ts';
import { aSession, appendTurn, inStep, toolCall, typesOf } from './log-parts.ts';
import { a, full, keep, say, setup } from './watched-store.ts';

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

  it('is possible again when it failed, and a store threw as it was given back', async () => {
    const { sessions, store } = await crashed(inStep().events);
    store.refuse = full;
    const released = vi.spyOn(store, 'release').mockImplementation(() => {
      throw new TypeError('No.');
    });
    await expect(sessions.load(a)).rejects.toMatchObject({ code: 'STORE_FULL' });
    const kept = vi.spyOn(store, 'delete').mockRejectedValue(full());
    await expect(sessions.remove(a)).rejects.toMatchObject({ code: 'STORE_FULL' });
    kept.mockRestore();
    released.mockRestore();
    store.refuse = undefined;
    expect((await sessions.load(a)).lastTurn).toBe(1);
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

  it('lets others have their turn while a long log is loaded, and while very many leave', async () => {
    const { sessions } = setup();
    await stored(sessions, 3_000);
    expect(await turnsDuring(() => sessions.load(a))).toBeGreaterThan(3);
    const many = Array.from({ length: 500 }, (_, index) => keep(sessions, `s${index}`));
    for (const session of many) say(session);
    await Promise.all(many.map((session) => session.committed()));
    expect(await turnsDuring(() => sessions.close())).toBeGreaterThan(8);
  });
});
