import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, it, vi } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SqliteStore } from '../../src/session/sqlite-store.ts';
import { LEASE_MS, RENEW_MS } from '../../src/session/sqlite-leases.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';
import { checkedHeader } from '../../src/session/header.ts';
import { Sql } from '../../src/session/sql.ts';
import { newOwner } from '../../src/session/store-owner.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { header, inStep, userMessage } from './log-parts.ts';
import { storeContract } from './store-contract.ts';

storeContract('the SQLite store', tempStore);
storeContract('the SQLite store in memory', () => {
  const store = openSqliteStore({ path: ':memory:' });
  return { store, [Symbol.asyncDispose]: () => store.close() };
});

const a = SessionId('a');
const { events } = inStep();
const create = (store: SqliteStore, id = a) =>
  store.append([{ id, epoch: 1, header: header(id), events }]);

describe('a file that is opened again', () => {
  it('holds what was resolved, and gives the next epoch', async () => {
    await using t = tempStore();
    await create(t.store);
    await t.store.close();
    const again = t.open();
    expect((await again.inspect(a)).events).toEqual(events);
    expect(await again.acquire(a)).toEqual({ epoch: 2 });
  });

  it('is read whole, however many pages its log has', async () => {
    await using t = tempStore({ durability: 'process' });
    const session = inStep();
    while (session.seq < 4_500) session.append('user/message', userMessage('m'));
    await t.store.append([{ id: a, epoch: 1, header: header('a'), events: session.events }]);
    expect((await t.open().inspect(a)).events).toEqual(session.events);
    const stop = new AbortController();
    const reading = t.store.readFrom(a, 1, stop.signal);
    stop.abort(new Error('enough'));
    await expect(reading).rejects.toThrow('enough');
  });

  it('can be read by this user alone', async () => {
    await using t = tempStore();
    await create(t.store);
    for (const end of ['', '-wal', '-shm'])
      expect(statSync(`${t.path}${end}`).mode & 0o777).toBe(0o600);
  });

  it.each([
    ['full', 2],
    ['process', 1],
    ['batched', 1],
  ] as const)('is synchronised as durability %s says', async (durability, synchronous) => {
    await using t = tempStore({ durability });
    const sql = connectionOf(t.store);
    expect(sql.run('SELECT give(synchronous) FROM pragma_synchronous')).toEqual([[synchronous]]);
    expect(sql.run('SELECT give(journal_mode) FROM pragma_journal_mode')).toEqual([['wal']]);
  });
});

describe('a file that cannot be a store', () => {
  const refusal = (path: string): unknown => {
    try {
      return openSqliteStore({ path });
    } catch (error) {
      return error;
    }
  };

  it.each([
    ['in a folder that does not exist', 'none/x.db', 'STORE_IO', 'folder does not exist'],
    ['that is a folder', 'folder', 'STORE_IO', 'is a folder'],
    ['that is no database', 'text', 'STORE_CORRUPT', 'no database'],
    ['of another application', 'other.db', 'STORE_FORMAT_UNSUPPORTED', 'something else'],
    ['that a newer version wrote', 'newer.db', 'STORE_FORMAT_UNSUPPORTED', 'format 99'],
  ])('is refused with one clear error: %s', async (_, name, code, message) => {
    await using t = tempStore();
    mkdirSync(join(t.folder, 'folder'));
    writeFileSync(join(t.folder, 'text'), 'not a database '.repeat(1_000));
    const other = new DatabaseSync(join(t.folder, 'other.db'));
    other.exec('CREATE TABLE mine (x)');
    other.close();
    await openSqliteStore({ path: join(t.folder, 'newer.db') }).close();
    const newer = new DatabaseSync(join(t.folder, 'newer.db'));
    newer.exec('PRAGMA user_version = 99');
    newer.close();
    const error = refusal(join(t.folder, name));
    expect(error).toMatchObject({ name: 'StoreError', code });
    expect((error as Error).message).toContain(message);
  });

  it('is left as it was', async () => {
    await using t = tempStore();
    const path = join(t.folder, 'other.db');
    const other = new DatabaseSync(path);
    other.exec('CREATE TABLE mine (x)');
    other.close();
    const before = readFileSync(path);
    refusal(path);
    const after = new DatabaseSync(path);
    expect(new Sql(after).run('SELECT give(name) FROM sqlite_schema')).toEqual([['mine']]);
    after.close();
    expect(before.length).toBe(readFileSync(path).length);
  });
});

describe('a damaged store', () => {
  const damage = async (sql: string) => {
    const t = tempStore();
    await create(t.store);
    const raw = new DatabaseSync(t.path);
    raw.exec(sql);
    raw.close();
    return t;
  };

  it.each([
    ['an event is missing', 'DELETE FROM event WHERE seq = 0', 'STORE_CORRUPT'],
    ['the last event is missing', 'DELETE FROM event WHERE seq = 1', 'STORE_CORRUPT'],
    ['an event cannot be read', "UPDATE event SET body = x'c1'", 'STORE_CORRUPT'],
    ['an event is no object', "UPDATE event SET body = x'01'", 'STORE_CORRUPT'],
    ['an event is of a later version', "UPDATE event SET body = CAST('{\"type\":\"made/up\"}' AS BLOB)", 'STORE_FORMAT_UNSUPPORTED'],
    ['the header is of a later version', "UPDATE session SET header = CAST('{\"version\":1}' AS BLOB)", 'STORE_FORMAT_UNSUPPORTED'],
    ['the header is damaged', "UPDATE session SET header = CAST('{\"version\":0}' AS BLOB)", 'STORE_CORRUPT'],
  ])('says so when %s', async (_, sql, code) => {
    await using t = await damage(sql);
    await expect(t.store.inspect(a)).rejects.toMatchObject({ name: 'StoreError', code });
  }); // prettier-ignore
});

describe('what cannot be written', () => {
  it('is refused as full, and neither it nor its batch is kept', async () => {
    await using t = tempStore();
    await create(t.store);
    const small = t.open();
    const sql = connectionOf(small);
    sql.run(
      `PRAGMA max_page_count = ${Number(sql.run('SELECT give(page_count) FROM pragma_page_count')[0]?.[0])}`,
    );
    const large = inStep();
    while (large.seq < 50) large.append('user/message', userMessage('x'.repeat(5_000)));
    const writing = small.append([
      { id: SessionId('b'), epoch: 1, header: header('b'), events: large.events },
    ]);
    await expect(writing).rejects.toMatchObject({ code: 'STORE_FULL' });
    expect(await small.list()).toHaveLength(1);
    sql.run('PRAGMA max_page_count = 100000');
    await create(small, SessionId('c'));
    expect(await t.store.list()).toHaveLength(2);
  });

  it('is refused by a store that is closed', async () => {
    await using t = tempStore();
    await t.store.close();
    await expect(t.store.list()).rejects.toMatchObject({ code: 'STORE_IO' });
    await expect(create(t.store)).rejects.toMatchObject({ code: 'STORE_IO' });
  });
});

/** The connection of a store, for what only a broken machine would do to it. */
function connectionOf(store: SqliteStore): Sql {
  const spy = vi.spyOn(Sql.prototype, 'run');
  void store.append([]);
  const [sql] = spy.mock.contexts;
  spy.mockRestore();
  return sql as Sql;
}

describe('a session that is held', () => {
  const elsewhere = () => ({ ...newOwner(), host: 'elsewhere' });

  it('is refused to another handle until it is released', async () => {
    await using t = tempStore();
    await create(t.store);
    const other = t.open();
    await expect(other.acquire(a)).rejects.toMatchObject({ code: 'SESSION_OWNED_ELSEWHERE' });
    await expect(other.delete([a])).rejects.toMatchObject({ code: 'SESSION_OWNED_ELSEWHERE' });
    await t.store.release([a]);
    expect(await other.acquire(a)).toEqual({ epoch: 2 });
    const stale = t.store.append([{ id: a, epoch: 1, events: [] }]);
    await expect(stale).rejects.toMatchObject({ code: 'STALE_EPOCH' });
    await expect(t.store.renew([a])).rejects.toMatchObject({ code: 'STALE_EPOCH' });
  });

  it('is free when its handle is closed', async () => {
    await using t = tempStore();
    await create(t.store);
    const other = t.open();
    await t.store.close();
    expect(await other.acquire(a)).toEqual({ epoch: 2 });
  });

  it('is free once its process is dead, whatever its lease says', async () => {
    await using t = tempStore();
    const process = spawn('sleep', ['60']);
    await once(process, 'spawn');
    const pid = process.pid as number;
    const startedAt =
      readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[19] ?? '';
    await create(t.open({ owner: { ...newOwner(), pid, startedAt } }));
    await expect(t.store.acquire(a)).rejects.toMatchObject({ code: 'SESSION_OWNED_ELSEWHERE' });
    expect(await t.store.isHeldElsewhere(a)).toBe(true);
    process.kill('SIGKILL');
    await once(process, 'close');
    expect(await t.store.isHeldElsewhere(a)).toBe(false);
    expect(await t.store.acquire(a)).toEqual({ epoch: 2 });
  });

  it('is free when another process has the pid of its owner', async () => {
    await using t = tempStore();
    await create(t.open({ owner: { ...newOwner(), startedAt: '1' } }));
    expect(await t.store.acquire(a)).toEqual({ epoch: 2 });
  });

  it('stays held by a process of this host that missed its lease', async () => {
    const clock = new ManualClock();
    await using t = tempStore({ clock });
    await create(t.open({ clock: new ManualClock() }));
    await clock.advance(10 * LEASE_MS);
    await expect(t.store.acquire(a)).rejects.toMatchObject({ code: 'SESSION_OWNED_ELSEWHERE' });
  });

  it('is free when the lease of another host has run out', async () => {
    const clock = new ManualClock();
    await using t = tempStore({ clock });
    await create(t.open({ owner: elsewhere(), clock: new ManualClock() }));
    await clock.advance(LEASE_MS - 1);
    await expect(t.store.acquire(a)).rejects.toMatchObject({ code: 'SESSION_OWNED_ELSEWHERE' });
    await clock.advance(1);
    expect(await t.store.acquire(a)).toEqual({ epoch: 2 });
  });

  it('stays held while the owner lives, which renews it by itself', async () => {
    const clock = new ManualClock();
    await using t = tempStore({ clock });
    const owner = t.open({ owner: elsewhere() });
    await create(owner);
    for (let time = 0; time < 3 * LEASE_MS; time += RENEW_MS) await clock.advance(RENEW_MS);
    await expect(t.store.acquire(a)).rejects.toMatchObject({ code: 'SESSION_OWNED_ELSEWHERE' });
    await owner.release([a]);
    await clock.advance(RENEW_MS);
    expect(clock.pending).toBe(0);
  });

  it('can be asked for, and is not taken by that', async () => {
    await using t = tempStore();
    await create(t.store);
    const other = t.open();
    expect(await t.store.isHeldElsewhere(a)).toBe(false);
    expect(await other.isHeldElsewhere(a)).toBe(true);
    await t.store.release([a]);
    expect(await other.isHeldElsewhere(a)).toBe(false);
    expect(await t.store.acquire(a)).toEqual({ epoch: 2 });
    await expect(other.isHeldElsewhere(SessionId('none'))).rejects.toMatchObject({
      code: 'SESSION_NOT_FOUND',
    });
  });
});

it('is one store for two handles that make the same new file', async () => {
  await using t = tempStore();
  const stores = [t.open(), t.open(), t.store];
  await Promise.all(stores.map((store, index) => create(store, SessionId(`s${index}`))));
  for (const store of stores) expect(await store.list()).toHaveLength(3);
});

it('lets go of the file when it is closed', async () => {
  const { store, path, [Symbol.asyncDispose]: dispose } = tempStore();
  await create(store);
  await store.inspect(a);
  await store.close();
  const open = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  });
  expect(open.filter((file) => file.startsWith(path))).toEqual([]);
  expect(existsSync(`${path}-wal`)).toBe(false);
  await dispose();
});

it('takes no part of an id for the whole', async () => {
  await using t = tempStore();
  await create(t.store);
  await expect(t.store.inspect(SessionId('a\0b'))).rejects.toMatchObject({
    code: 'SESSION_NOT_FOUND',
  });
  expect(() => checkedHeader(header('a\0b'))).toThrow(ArgumentError);
});
