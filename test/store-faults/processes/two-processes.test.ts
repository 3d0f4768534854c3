/** Two real processes on one file. */
import { hostname } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, it } from 'vitest';
import { SessionId } from '../../../protocol/ids.ts';
import { LEASE_MS } from '../../../src/session/sqlite-leases.ts';
import { openSqliteStore } from '../../../src/session/sqlite-store.ts';
import { Sql } from '../../../src/session/sql.ts';
import { header, inStep } from '../../session/log-parts.ts';
import { copyOldFile, oldSessions } from '../../session/old-file.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { tempStore } from '../../support/temp-store.ts';
import { storeProcess } from './child.ts';

const a = SessionId('a');
const { events } = inStep();
const creation = { id: a, epoch: 1, header: header('a'), events: events.slice(0, 1) };
const more = { id: a, epoch: 1, events: events.slice(1) };

/** A process that holds `a`. */
async function owned(options: Parameters<typeof storeProcess>[1] = {}) {
  const t = tempStore();
  const owner = await storeProcess(t.path, options);
  await owner.call('open');
  await owner.call('append', [creation]);
  return {
    ...t,
    owner,
    async [Symbol.asyncDispose]() {
      await owner[Symbol.asyncDispose]();
      await t[Symbol.asyncDispose]();
    },
  };
}

describe('a session that another process holds', () => {
  it('is refused by name of its owner, and is free once that is killed', async () => {
    await using t = await owned();
    await using other = await storeProcess(t.path);
    await other.call('open');
    const { error } = (await other.reply('acquire', a)) as { error: { code: string; message: string } };
    expect(error.code).toBe('SESSION_OWNED_ELSEWHERE');
    expect(error.message).toContain(`process ${t.owner.pid} on ${hostname()}`);
    expect(error.message).toMatch(/its lease runs for 1\d s/);
    expect(await other.call('inspect', a)).toMatchObject({ events: creation.events });
    expect(await other.reply('append', [more])).toMatchObject({ error: { code: 'STALE_EPOCH' } });
    expect(await other.reply('delete', [a])).toMatchObject({ error: { code: 'SESSION_OWNED_ELSEWHERE' } });
    await t.owner.kill();
    expect(await other.call('acquire', a)).toEqual({ epoch: 2 });
    expect(await other.reply('append', [more])).toMatchObject({ error: { code: 'STALE_EPOCH' } });
  }); // prettier-ignore

  it('is not taken from one of this host that stands still, however long', async () => {
    await using t = await owned();
    t.owner.signal('SIGSTOP');
    const clock = new ManualClock(Date.now() + 100 * LEASE_MS);
    const other = t.open({ clock });
    await expect(other.acquire(a)).rejects.toMatchObject({
      code: 'SESSION_OWNED_ELSEWHERE',
      message: expect.stringContaining('its lease is over, but it lives') as string,
    });
    t.owner.signal('SIGCONT');
    expect(await t.owner.reply('append', [more])).toEqual({ ok: null });
  });

  it('is taken from one of another host when its lease ran out, which can then write no more', async () => {
    const now = Date.now();
    await using t = await owned({ host: 'elsewhere', now });
    t.owner.signal('SIGSTOP');
    const early = t.open({ clock: new ManualClock(now + LEASE_MS - 1) });
    await expect(early.acquire(a)).rejects.toMatchObject({ code: 'SESSION_OWNED_ELSEWHERE' });
    const late = t.open({ clock: new ManualClock(now + LEASE_MS) });
    expect(await late.acquire(a)).toEqual({ epoch: 2 });
    await late.append([{ ...more, epoch: 2 }]);
    t.owner.signal('SIGCONT');
    const stale = { error: { name: 'StoreError', code: 'STALE_EPOCH' } };
    const later = { id: a, epoch: 1, events: [{ ...events[1], seq: 2 }] };
    expect(await t.owner.reply('append', [later])).toMatchObject(stale);
    expect(await t.owner.reply('renew', [a])).toMatchObject(stale);
    await t.owner.call('release', [a]);
    expect((await late.inspect(a)).events).toEqual(events);
    await late.renew([a]);
  });
});

describe('a file that another process writes', () => {
  it('holds up nothing but the write that waits for it', async () => {
    await using t = await owned();
    await t.owner.call('hold');
    let isDone = false;
    const writing = t.store
      .append([{ ...creation, id: SessionId('b'), header: header('b') }])
      .then(() => (isDone = true));
    for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve));
    expect(await t.store.list()).toHaveLength(1);
    expect(isDone).toBe(false);
    await t.owner.call('letGo');
    await writing;
    expect(await t.store.list()).toHaveLength(2);
  });
});

const versionOf = (path: string): unknown => {
  const database = new DatabaseSync(path);
  const [row] = new Sql(database).run('SELECT give(user_version) FROM pragma_user_version');
  database.close();
  return row?.[0];
};

describe('a file of version 1', () => {
  it('that four processes open at once becomes one of this version once', async () => {
    await using t = tempStore();
    const path = join(t.folder, 'old.db');
    copyOldFile(path);
    await using p1 = await storeProcess(path);
    await using p2 = await storeProcess(path);
    await using p3 = await storeProcess(path);
    await using p4 = await storeProcess(path);
    const all = [p1, p2, p3, p4];
    expect(await Promise.all(all.map((one) => one.reply('open')))).toEqual(all.map(() => ({ ok: null })));
    for (const one of all) expect(await one.call('list')).toHaveLength(oldSessions.length);
  }); // prettier-ignore

  it.each([
    ['tables', 0, 1],
    ['row', 1, 1],
    ['row', 4, 1],
    ['version', 0, 1],
    ['commit', 0, 2],
  ])('whose migration is killed at its %s %d is of version %d, and whole', async (point, value, version) => {
    await using t = tempStore();
    const path = join(t.folder, 'old.db');
    copyOldFile(path);
    await using migrating = await storeProcess(path);
    await migrating.call('dieIn', point, value);
    expect(await migrating.reply('open')).toMatchObject({ error: { code: 'GONE' } });
    expect(versionOf(path)).toBe(version);
    await using store = openSqliteStore({ path });
    expect(versionOf(path)).toBe(2);
    for (const one of oldSessions) expect(await store.inspect(one.header.id)).toEqual(one);
    expect(await store.listBelow([SessionId('root')], 1)).toHaveLength(2);
  }); // prettier-ignore
});
