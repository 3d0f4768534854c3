/** The file of a store: what waits for it, and how large it grows. */
import { statSync } from 'node:fs';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import type { SqliteStore } from '../../src/session/sqlite-store.ts';
import { Sql } from '../../src/session/sql.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { header, inStep, userMessage } from './log-parts.ts';
import { copyOldFile, oldSessions } from './old-file.ts';

const a = SessionId('a');
const creation = (id: string, events = inStep().events) => ({
  id: SessionId(id),
  epoch: 1,
  header: header(id),
  events,
});

/** A store whose file another connection writes, until `free`. */
async function busy() {
  const clock = new ManualClock();
  const t = tempStore({ clock });
  await t.store.append([creation('a')]);
  const other = new DatabaseSync(t.path);
  other.exec('BEGIN IMMEDIATE');
  return {
    ...t,
    clock,
    free: () => other.exec('ROLLBACK'),
    async [Symbol.asyncDispose]() {
      other.close();
      const closing = t[Symbol.asyncDispose]();
      await clock.advance(100);
      await closing;
    },
  };
}

describe('a file that another process writes', () => {
  it('is read at once, and written in the order of the calls when it is free', async () => {
    await using t = await busy();
    const done: string[] = [];
    const told = (name: string) => () => void done.push(name);
    const { events } = inStep();
    const more = events.map((event) => ({ ...event, seq: event.seq + 2 }));
    const writing = [
      t.store.append([{ id: a, epoch: 1, events: more }]).then(told('append')),
      t.store.append([{ ...creation('b'), inherits: { id: a, count: 1 } }]).then(told('create')),
      t.store.renew([a]).then(told('renew')),
      t.store.delete([SessionId('b')]).then(told('delete')),
      t.store.release([a]).then(told('release')),
      t.store.acquire(a).then(told('acquire')),
    ];
    expect(await t.store.list()).toHaveLength(1);
    expect((await t.store.inspect(a)).events).toEqual(events);
    await t.clock.advance(1_000);
    expect(done).toEqual([]);
    t.free();
    // It could be done at once, before the next try of those that came first.
    writing.push(t.store.append([creation('c')]).then(told('late')));
    await t.clock.advance(100);
    await Promise.all(writing);
    expect(done).toEqual(['append', 'create', 'renew', 'delete', 'release', 'acquire', 'late']);
    expect((await t.store.inspect(a)).events).toEqual([...events, ...more]);
  });

  it('is given up after 5 s by all that wait, with nothing kept; then it works again', async () => {
    await using t = await busy();
    const writing = [t.store.append([creation('b')]), t.store.append([creation('c')])];
    const ends = Promise.allSettled(writing);
    await t.clock.advance(5_100);
    const error = { name: 'StoreError', code: 'STORE_IO', message: expect.stringContaining('held it locked for too long') as string };
    expect(await ends).toMatchObject([{ reason: error }, { reason: error }]);
    t.free();
    // The leases were to be renewed meanwhile, so that comes first.
    const last = t.store.append([creation('d')]);
    await t.clock.advance(100);
    await last;
    expect((await t.store.list()).map(({ id }) => id)).toEqual(['a', 'd']);
  }); // prettier-ignore

  it('is closed when what was asked for is written', async () => {
    await using t = await busy();
    const writing = t.store.append([creation('b')]);
    const closing = t.store.close();
    await expect(t.store.append([creation('c')])).rejects.toMatchObject({ code: 'STORE_IO' });
    await t.clock.advance(1_000);
    t.free();
    await t.clock.advance(100);
    await writing;
    await closing;
    const again = t.open();
    expect((await again.list()).map(({ id }) => id)).toEqual(['a', 'b']);
    // Given back with the rest.
    expect(await again.acquire(SessionId('b'))).toEqual({ epoch: 2 });
  });
});

const large = (bytes: number) => {
  const session = inStep();
  for (let size = 0; size < bytes; size += 50_000) {
    session.append('user/message', userMessage('x'.repeat(50_000)));
  }
  return session.events;
};
const freeIn = (path: string): unknown => {
  const database = new DatabaseSync(path);
  const sql = new Sql(database);
  const [[free] = [], [mode] = []] = sql.run(
    'SELECT give(freelist_count) FROM pragma_freelist_count; SELECT give(auto_vacuum) FROM pragma_auto_vacuum',
  );
  database.close();
  return { free, mode };
};

describe('vacuum', () => {
  it('gives back the space of what was deleted, with turns for others in between', async () => {
    await using t = tempStore();
    await t.store.append([creation('a'), creation('b', large(3_000_000))]);
    await t.store.delete([SessionId('b')]);
    let turns = 0;
    const count = (): void => {
      turns++;
      handle = setImmediate(count);
    };
    let handle = setImmediate(count);
    await t.store.vacuum();
    clearImmediate(handle);
    expect(turns).toBeGreaterThan(5);
    expect(freeIn(t.path)).toEqual({ free: 0, mode: 2 });
    expect(statSync(t.path).size).toBeLessThan(100_000);
    expect((await t.store.inspect(a)).events).toHaveLength(2);
  });

  it('brings a file of version 1 to where it can be given back in steps', async () => {
    await using t = tempStore();
    const path = `${t.folder}/old.db`;
    copyOldFile(path);
    await using store = openSqliteStore({ path });
    expect(freeIn(path)).toMatchObject({ mode: 0 });
    await store.vacuum();
    expect(freeIn(path)).toEqual({ free: 0, mode: 2 });
    for (const one of oldSessions) expect(await store.inspect(one.header.id)).toEqual(one);
  });

  it('ends when its signal is aborted, and has nothing to do in memory', async () => {
    await using t = tempStore();
    await t.store.append([creation('b', large(2_000_000))]);
    await t.store.delete([SessionId('b')]);
    const stop = new AbortController();
    const vacuum = t.store.vacuum(stop.signal);
    stop.abort(new Error('enough'));
    await expect(vacuum).rejects.toThrow('enough');
    expect(freeIn(t.path)).not.toMatchObject({ free: 0 });
    await using inMemory = openSqliteStore({ path: ':memory:' });
    await inMemory.vacuum();
  });
});

describe('the write-ahead log', () => {
  const write = async (store: SqliteStore, bytes: number) => {
    const id = SessionId('large');
    await store.append([creation(id, large(bytes))]);
    await store.delete([id]);
  };

  it('is as long as a reader needs it, short after that, and gone when the file is closed', async () => {
    await using t = tempStore({ durability: 'process' });
    const log = `${t.path}-wal`;
    await t.store.append([creation('a')]);
    const reader = new DatabaseSync(t.path);
    new Sql(reader).run('BEGIN; SELECT give(count(*)) FROM session');
    for (let time = 0; time < 3; time++) await write(t.store, 3_000_000);
    expect(statSync(log).size).toBeGreaterThan(8_000_000);
    reader.exec('COMMIT');
    for (let time = 0; time < 3; time++) await write(t.store, 1_000);
    expect(statSync(log).size).toBeLessThanOrEqual(4 * 1_024 * 1_024);
    reader.close();
    await t.store.close();
    expect(() => statSync(log)).toThrow('ENOENT');
  });

  it('is not longer for many writes than for a few', async () => {
    await using t = tempStore({ durability: 'process' });
    for (let time = 0; time < 40; time++) await write(t.store, 400_000);
    expect(statSync(`${t.path}-wal`).size).toBeLessThan(8 * 1_024 * 1_024);
  });
});

it('lists many sessions with turns for others in between', async () => {
  await using t = tempStore({ durability: 'process' });
  const root = SessionId('root');
  const batch = Array.from({ length: 10_000 }, (_, n) => ({
    id: SessionId(`s${n}`),
    epoch: 1,
    header: header(`s${n}`, { createdAt: n % 10, parentSession: root }),
    events: [],
    checkpoint: { seq: -1, rows: {} },
  }));
  await t.store.append(batch);
  for (const ask of [
    () => t.store.list(),
    () => t.store.listBelow([root], 2),
    async () => [...(await t.store.checkpoints(batch.map(({ id }) => id))).keys()],
  ]) {
    let turns = 0;
    const count = (): void => {
      turns++;
      handle = setImmediate(count);
    };
    let handle = setImmediate(count);
    expect(await ask()).toHaveLength(10_000);
    clearImmediate(handle);
    expect(turns).toBeGreaterThanOrEqual(40);
  }
});
