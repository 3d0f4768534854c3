import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, it, vi } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { silentLogger } from '../../src/base/logger.ts';
import type { Session } from '../../src/session/session.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { Sql } from '../../src/session/sql.ts';
import { STATEMENTS } from '../../src/session/sqlite-schema.ts';
import type { SqliteStore } from '../../src/session/sqlite-store.ts';
import { newOwner } from '../../src/session/store-owner.ts';
import type { SessionPersistence } from '../../src/session/store.ts';
import { gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import type { TempStore } from '../support/temp-store.ts';
import { tempStore } from '../support/temp-store.ts';
import { appendTurn, aSession, header } from './log-parts.ts';
import { full, keep, say, setup } from './watched-store.ts';

const a = SessionId('a');
const b = SessionId('b');
const log = aSession();
appendTurn(log, 'one');
appendTurn(log, 'two');
const { events } = log;

const creation = (id: SessionId, given: readonly SessionEvent[]) => ({
  id,
  epoch: 1,
  header: header(id),
  events: given,
});
const heir = (given = events, count = events.length) => ({
  ...creation(b, given),
  inherits: { id: a, count },
});

/** By another connection, as another process would. */
function elsewhere({ path }: TempStore, sql: string): void {
  const raw = new DatabaseSync(path);
  raw.exec(sql);
  raw.close();
}

/**
 * Put other events in the place of those of session `a`: what has them was copied from there,
 * and what has its own was not.
 */
function mark(t: TempStore): void {
  const body = `CAST('{"type":"session/end-seed","time":7,"data":{}}' AS BLOB)`;
  elsewhere(t, `UPDATE event SET body = ${body} WHERE session = 1`);
}
const isMarked = ({ time }: SessionEvent): boolean => time === 7;
const copied = async (store: SessionPersistence, id = b): Promise<number> =>
  (await store.inspect(id)).events.filter(isMarked).length;

describe('what a new session inherits in one file', () => {
  it('is copied there, and only the rest is packed', async () => {
    await using t = tempStore();
    await t.store.append([creation(a, events.slice(0, 6))]);
    const unreadable = events.slice(0, 6).map(({ seq }) => ({
      seq,
      get data(): never {
        throw new Error('It was packed.');
      },
    }));
    const given = [...unreadable, ...events.slice(6)] as unknown as readonly SessionEvent[];
    await expect(t.store.append([creation(b, given)])).rejects.toMatchObject({
      code: 'STORE_CORRUPT',
    });
    await t.store.append([heir(given, 6)]);
    expect((await t.store.inspect(b)).events).toEqual(events);
  });

  it.each([
    [12, 12, 12],
    [6, 12, 6],
    [12, 6, 6],
    [12, 99, 12],
    [0, 12, 0],
  ])('is copied as far as it is stored: %i of %i', async (stored, count, expected) => {
    await using t = tempStore();
    await t.store.append([creation(a, events.slice(0, stored))]);
    mark(t);
    await t.store.append([heir(events, count)]);
    const { events: kept } = await t.store.inspect(b);
    expect(kept.slice(0, expected).every(isMarked)).toBe(true);
    expect(kept.slice(expected)).toEqual(events.slice(expected));
  });

  it.each([
    ['was deleted', 'DELETE FROM session'],
    ['is another of that id', 'UPDATE session SET epoch = 2'],
    ['is held by another', "UPDATE session SET owner = '{}'"],
    ['is held by nobody', 'UPDATE session SET owner = NULL'],
    ['lacks its first event', 'DELETE FROM event WHERE session = 1 AND seq = 0'],
    ['lacks an event', 'DELETE FROM event WHERE session = 1 AND seq = 5'],
    ['lacks its last event', 'DELETE FROM event WHERE session = 1 AND seq = 11'],
  ])('is written as it was given when what is stored %s', async (_, sql) => {
    await using t = tempStore();
    await t.store.append([creation(a, events)]);
    mark(t);
    elsewhere(t, sql);
    await t.store.append([heir()]);
    expect((await t.store.inspect(b)).events).toEqual(events);
  });

  it.each([
    ['is deleted', 'DELETE FROM session'],
    ['is taken', "UPDATE session SET epoch = 2, owner = '{}'"],
  ])('is written as it was given when it %s right before the write', async (_, sql) => {
    await using t = tempStore();
    await t.store.append([creation(a, events)]);
    mark(t);
    const { transaction } = Sql.prototype;
    const spy = vi.spyOn(Sql.prototype, 'transaction');
    spy.mockImplementationOnce(function (this: Sql, operation) {
      elsewhere(t, sql);
      return transaction.call(this, operation);
    });
    await t.store.append([heir()]);
    expect(spy).toHaveBeenCalledOnce();
    spy.mockRestore();
    expect((await t.store.inspect(b)).events).toEqual(events);
  });

  it('is not copied from a session that another handle holds, or this one has released', async () => {
    await using t = tempStore();
    await t.store.append([creation(a, events)]);
    mark(t);
    const other = t.open({ owner: newOwner() });
    const spy = vi.spyOn(Sql.prototype, 'run');
    await other.append([heir()]);
    await t.store.release([a]);
    await t.store.append([{ ...heir(), ...creation(SessionId('c'), events) }]);
    // Known before the lock, so that nothing is packed while it is held.
    expect(spy.mock.calls.map(([statement]) => statement)).not.toContain(STATEMENTS.copy);
    spy.mockRestore();
    expect(await copied(other)).toBe(0);
    expect(await copied(t.store, SessionId('c'))).toBe(0);
    await t.store.acquire(a);
    await t.store.append([{ ...heir(), ...creation(SessionId('d'), events) }]);
    expect(await copied(t.store, SessionId('d'))).toBe(events.length);
  });

  it('is no more than what was given', async () => {
    await using t = tempStore();
    await t.store.append([creation(a, events)]);
    await t.store.append([heir(events.slice(0, 6), 12)]);
    expect((await t.store.inspect(b)).events).toEqual(events.slice(0, 6));
    await t.store.append([{ id: b, epoch: 1, events: events.slice(6) }]);
    expect((await t.store.inspect(b)).events).toEqual(events);
  });

  it('leaves nothing of a write that fails, and is copied by the next', async () => {
    await using t = tempStore();
    await t.store.append([creation(a, events)]);
    mark(t);
    const refused = t.store.append([heir(), { id: SessionId('none'), epoch: 1, events: [] }]);
    await expect(refused).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
    await expect(t.store.inspect(b)).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
    await t.store.append([heir()]);
    expect(await copied(t.store)).toBe(events.length);
  });
});

/** A session that is kept and begins with the finished turns of another. */
function fork(sessions: Sessions, parent: Session, id = 'b'): Session {
  const child = prepareFork(sessions, parent, id);
  sessions.accept(child);
  return child;
}

function prepareFork(sessions: Sessions, parent: Session, id = 'b'): Session {
  const seed = parent.completedTurns()!;
  const child = sessions.prepare({ id: SessionId(id), seed, meta: { seedLength: seed.length } });
  sessions.enter(child);
  return child;
}

describe('the first write of a session that begins with the turns of another', () => {
  const parentOf = async (sessions: Sessions): Promise<Session> => {
    const parent = keep(sessions);
    appendTurn(parent, 'one');
    await parent.committed();
    return parent;
  };
  const hints = (store: ReturnType<typeof setup>['store'], id = 'b'): unknown[] =>
    store.batches.flat().flatMap((entry) => (entry.id === id ? [entry.inherits] : []));

  it('names it, and no later write does', async () => {
    const { sessions, store } = setup();
    const child = fork(sessions, await parentOf(sessions));
    await child.committed();
    say(child);
    await child.committed();
    expect(hints(store)).toEqual([{ id: 'a', count: 6 }, undefined]);
    expect(store.written).toEqual(['a:6', 'b:7', 'b:1']);
    expect((await store.inspect(b)).events).toEqual(child.events);
  });

  it('names it again when it failed and is made again', async () => {
    const { sessions, store } = setup();
    const parent = await parentOf(sessions);
    store.refuse = full;
    const child = fork(sessions, parent);
    await expect(child.committed()).rejects.toMatchObject({ code: 'STORE_FULL' });
    store.refuse = undefined;
    sessions.accept(child);
    await child.committed();
    expect(hints(store)).toEqual([
      { id: 'a', count: 6 },
      { id: 'a', count: 6 },
    ]);
  });

  it('names the session it was made from, and not the first of all', async () => {
    const { sessions, store } = setup();
    const child = fork(sessions, await parentOf(sessions));
    appendTurn(child, 'two');
    await child.committed();
    await fork(sessions, child, 'c').committed();
    expect(hints(store, 'c')).toEqual([{ id: 'b', count: 13 }]);
  });

  it('names none whose own creation may still fail', async () => {
    const { sessions, store } = setup();
    const parent = keep(sessions);
    appendTurn(parent, 'one');
    const child = fork(sessions, parent);
    await child.committed();
    expect(store.written).toEqual(['a:6 b:7']);
    expect(hints(store)).toEqual([undefined]);
  });

  it('names none that has left, or that another owner took', async () => {
    const { sessions, store } = setup();
    const parent = await parentOf(sessions);
    const [left, lost] = [parent, keep(sessions, 'l')];
    appendTurn(lost, 'one');
    await lost.committed();
    const [child, other] = [prepareFork(sessions, left), prepareFork(sessions, lost, 'c')];
    await sessions.leave(left);
    const after = prepareFork(sessions, left, 'd');
    await store.acquire(lost.id);
    say(lost);
    await expect(lost.committed()).rejects.toMatchObject({ code: 'STALE_EPOCH' });
    for (const session of [child, other, after]) {
      sessions.accept(session);
      await session.committed();
      expect(hints(store, session.id)).toEqual([undefined]);
      expect((await store.inspect(session.id)).events).toEqual(session.events);
    }
  });

  it('names none that is kept elsewhere under an id that is known here', async () => {
    const [here, there] = [setup(), setup()];
    const [parent, stranger] = [await parentOf(here.sessions), keep(there.sessions)];
    appendTurn(stranger, 'other');
    await stranger.committed();
    const child = fork(there.sessions, parent);
    await child.committed();
    expect(hints(there.store)).toEqual([undefined]);
  });

  it('names none for a copy of its turns', async () => {
    const { sessions, store } = setup();
    const seed = [...(await parentOf(sessions)).completedTurns()!];
    const child = sessions.prepare({ id: b, seed });
    sessions.accept(child);
    await child.committed();
    expect(hints(store)).toEqual([undefined]);
  });

  it('names it while a part of it waits to be written', async () => {
    const { sessions, store } = setup();
    const parent = await parentOf(sessions);
    store.hold = gate();
    appendTurn(parent, 'two');
    const child = fork(sessions, parent);
    store.hold.open();
    await child.committed();
    expect(store.written).toEqual(['a:6', 'a:6 b:13']);
    expect(hints(store)).toEqual([{ id: 'a', count: 12 }]);
  });
});

describe('a stored session that begins with the turns of another', () => {
  const open = (store: SqliteStore, durability: 'process' | 'batched' = 'process') => {
    const clock = new ManualClock();
    return new Sessions({ store, clock, logger: silentLogger, durability });
  };

  it('is what it was in memory, and so is one that begins with its own', async () => {
    await using t = tempStore({ durability: 'process' });
    const sessions = open(t.store);
    const parent = keep(sessions);
    appendTurn(parent, 'one');
    await parent.committed();
    const child = fork(sessions, parent);
    appendTurn(child, 'two');
    await child.committed();
    appendTurn(parent, 'three');
    const grandchild = fork(sessions, child, 'c');
    await Promise.all([grandchild.committed(), parent.committed()]);
    await sessions.close();
    const again = t.open();
    for (const session of [parent, child, grandchild]) {
      const { header: stored, events: kept } = await again.inspect(session.id);
      expect(stored).toEqual(session.header);
      expect(kept).toEqual(session.events);
    }
  });

  it('was copied as far as its parent was written', async () => {
    await using t = tempStore({ durability: 'batched' });
    const sessions = open(t.store, 'batched');
    const parent = keep(sessions);
    appendTurn(parent, 'one');
    await sessions.flush(parent);
    mark(t);
    appendTurn(parent, 'two');
    const child = fork(sessions, parent);
    await sessions.flush(child);
    expect(await copied(t.store)).toBe(6);
    expect((await t.store.readFrom(b, 6)).every((event) => !isMarked(event))).toBe(true);
    expect(child.durable).toBe(13);
    await sessions.close();
  });
});
