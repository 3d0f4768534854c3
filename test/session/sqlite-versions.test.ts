/** Files that other versions wrote. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, it, vi } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import type { DamagedSession } from '../../src/session/store.ts';
import { Sql } from '../../src/session/sql.ts';
import { LEASE_MS } from '../../src/session/sqlite-leases.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';
import { systemClock } from '../../src/base/clock.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { subagentIdentity } from '../../src/subagents/identity-projection.ts';
import { listDescendants } from '../../src/subagents/listing.ts';
import { failing, full } from '../support/faulty-sqlite.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { projectionsOf } from './projection-parts.ts';
import { header, inStep } from './log-parts.ts';
import { copyOldFile, oldIds, OLD_NOW, oldSessions } from './old-file.ts';

vi.mock('@photostructure/sqlite', () => import('../support/faulty-sqlite.ts'));

const root = SessionId('root');
const { child, fork, open, orphan } = oldIds;
const idsOf = (headers: readonly { readonly id: string }[]) => headers.map(({ id }) => id);

function ask(path: string, sql: string): readonly (readonly unknown[])[] {
  const database = new DatabaseSync(path);
  try {
    return new Sql(database).run(sql);
  } finally {
    database.close();
  }
}
const versionOf = (path: string) =>
  ask(path, 'SELECT give(user_version) FROM pragma_user_version')[0]?.[0];
const tablesOf = (path: string) =>
  ask(path, 'SELECT give(name) FROM sqlite_schema WHERE sql IS NOT NULL').flat().sort();

/** The folder of a store, with an old file in it. */
function withOldFile(damage = '') {
  const t = tempStore();
  const path = join(t.folder, 'old.db');
  copyOldFile(path);
  if (damage !== '') ask(path, damage);
  return {
    path,
    open: (options = {}) => openSqliteStore({ path, ...options }),
    [Symbol.asyncDispose]: () => t[Symbol.asyncDispose](),
  };
}

describe('a file of version 1', () => {
  it('is read whole, and so again after it became one of this version', async () => {
    await using old = withOldFile();
    expect(versionOf(old.path)).toBe(1);
    for (let time = 0; time < 2; time++) {
      await using store = old.open();
      expect(await store.list()).toEqual(oldSessions.map((session) => session.header));
      for (const session of oldSessions) {
        expect(await store.inspect(session.header.id)).toEqual(session);
      }
      expect(idsOf(await store.listBelow([root], 1))).toEqual([child, fork]);
      expect(idsOf(await store.listBelow([root], 2))).toEqual([child, fork, open]);
      expect(idsOf(await store.listBelow([SessionId('gone')], 1))).toEqual([orphan]);
      expect((await store.checkpoints(idsOf(await store.list()) as SessionId[])).size).toBe(0);
      expect(versionOf(old.path)).toBe(2);
    }
  });

  it('keeps its leases and its epochs', async () => {
    await using old = withOldFile();
    const clock = new ManualClock(OLD_NOW);
    await using store = old.open({ clock });
    await expect(store.acquire(SessionId('held'))).rejects.toMatchObject({
      code: 'SESSION_OWNED_ELSEWHERE',
      message: expect.stringContaining('process 4242 on an-old-host/pid:[1]; its lease runs for 15 s') as string,
    });
    await clock.advance(LEASE_MS);
    expect(await store.acquire(SessionId('held'))).toEqual({ epoch: 2 });
    expect(await store.acquire(SessionId('odd'))).toEqual({ epoch: 3 });
  }); // prettier-ignore

  it('has logs that can be loaded, gone on with and listed, each of them', async () => {
    await using old = withOldFile();
    await using store = old.open();
    const sessions = new Sessions({ store, clock: systemClock, logger: silentLogger });
    const projections = projectionsOf(sessions);
    projections.register(subagentIdentity);
    const services = { projections, sessions, persistence: store };
    const descendants = async (id: SessionId) =>
      (await listDescendants(services, id)).map((row) =>
        'label' in row ? [row.id, row.depth, row.label] : row,
      );
    const listed = [
      [child, 1, 'child'],
      [open, 2, 'open'],
      [fork, 1, 'fork'],
    ];
    for (let time = 0; time < 2; time++) {
      expect(await descendants(root)).toEqual(listed);
      expect(await descendants(SessionId('gone'))).toEqual([[orphan, 1, 'orphan']]);
      for (const { header: kept, events } of oldSessions) {
        const session = await sessions.load(kept.id);
        sessions.enter(session);
        expect(session.header).toEqual(kept);
        if (time === 0) expect(session.events.slice(0, events.length)).toEqual(events);
        await sessions.leave(session);
      }
    }
    expect(
      (await store.inspect(open)).events.findLast(({ type }) => type === 'turn/end'),
    ).toMatchObject({
      data: { reason: { kind: 'interrupted' } },
    });
  });

  it('is gone on with', async () => {
    await using old = withOldFile();
    await using store = old.open();
    const { epoch } = await store.acquire(root);
    const { events } = oldSessions[0] as (typeof oldSessions)[number];
    const more = inStep().events.map((event) => ({ ...event, seq: event.seq + events.length }));
    const checkpoint = { seq: events.length, rows: {} };
    await store.append([
      { id: root, epoch, events: more, checkpoint },
      { id: SessionId('new'), epoch: 1, header: header('new', { parentSession: root, createdAt: OLD_NOW }), events: [] },
    ]);
    expect((await store.inspect(root)).events).toEqual([...events, ...more]);
    expect(idsOf(await store.listBelow([root], 1))).toEqual(['new', child, fork]);
    expect(await store.checkpoints([root])).toEqual(new Map([[root, checkpoint]]));
  }); // prettier-ignore

  it.each([
    ['that cannot be unpacked', `UPDATE session SET header = x'c1' WHERE id = '${child}'`, 'STORE_CORRUPT', undefined],
    ['of a later kind', `UPDATE session SET header = CAST('{"version":9,"parentSession":"root"}' AS BLOB) WHERE id = '${child}'`, 'STORE_FORMAT_UNSUPPORTED', 'root'],
  ])('with a header %s becomes one of this version all the same', async (_, damage, code, parent) => {
    await using old = withOldFile(damage);
    await using store = old.open();
    const damaged: DamagedSession[] = [];
    const others = oldSessions.map((session) => session.header).filter(({ id }) => id !== child);
    expect(await store.list(undefined, (one) => damaged.push(one))).toEqual(others);
    const createdAt = oldSessions.find((one) => one.header.id === child)?.header.createdAt;
    const parentSession = parent === undefined ? {} : { parentSession: parent };
    expect(damaged).toEqual([
      { id: child, createdAt: createdAt as number, ...parentSession, error: expect.objectContaining({ name: 'StoreError', code }) as Error },
    ]);
    expect(idsOf(await store.listBelow([child], 1))).toEqual([open]);
    const below: DamagedSession[] = [];
    const outlines = await store.outlineBelow([root], 1, undefined, (one) => below.push(one));
    expect(idsOf(outlines)).toEqual([fork]);
    expect(idsOf(below)).toEqual(parent === undefined ? [] : [child]);
  }); // prettier-ignore

  it('stays one, and is whole, when the disk is full before it is one of this version', async () => {
    await using old = withOldFile();
    const before = readFileSync(old.path);
    const seen = failing(full);
    await tempStore()[Symbol.asyncDispose]();
    const at = seen.statements.findIndex((sql) => sql.includes('CREATE TABLE'));
    seen.end();
    const watch = failing(full, at, true);
    const open = () => old.open();
    expect(open).toThrow(expect.objectContaining({ name: 'StoreError', code: 'STORE_FULL' }));
    watch.end();
    expect(versionOf(old.path)).toBe(1);
    expect(tablesOf(old.path)).toEqual(['event', 'session', 'session_by_age', 'sqlite_sequence']);
    expect(readFileSync(old.path).equals(before)).toBe(true);
    await using store = old.open();
    expect(await store.list()).toHaveLength(oldSessions.length);
  });
});

it('a file of a later version is refused, and left as it is', async () => {
  await using old = withOldFile('PRAGMA user_version = 3');
  const before = readFileSync(old.path);
  expect(() => old.open()).toThrow('has format 3; this version reads up to 2');
  expect(readFileSync(old.path).equals(before)).toBe(true);
});

it('the header of a child that cannot be read hides none of the others', async () => {
  await using t = tempStore();
  const child = (name: string, parent: string) => {
    const more = { parentSession: SessionId(parent), createdAt: 7 };
    return { id: SessionId(name), epoch: 1, header: header(name, more), events: [] };
  };
  await t.store.append([child('a', 'root'), child('b', 'root'), child('c', 'root'), child('below', 'b')]);
  ask(t.path, "UPDATE session SET header = x'c1' WHERE id = 'b'");
  const damaged: DamagedSession[] = [];
  const onDamaged = (one: DamagedSession): void => void damaged.push(one);
  expect(idsOf(await t.store.listBelow([root], 9, undefined, onDamaged))).toEqual(['a', 'below', 'c']);
  const [one] = damaged;
  expect(one).toMatchObject({ id: 'b', createdAt: 7, parentSession: 'root', error: { code: 'STORE_CORRUPT' } });
  await expect(t.store.inspect(SessionId('b'))).rejects.toMatchObject({ message: one?.error.message });
}); // prettier-ignore

it('a checkpoint that cannot be read, or that knows more than the log, is as none', async () => {
  await using t = tempStore();
  const made = ['a', 'b', 'c'].map((name) => ({
    id: SessionId(name),
    epoch: 1,
    header: header(name),
    events: inStep().events,
    checkpoint: { seq: 1, rows: {} },
  }));
  await t.store.append(made);
  ask(t.path, "UPDATE checkpoint SET body = '{' WHERE session = 1");
  ask(t.path, 'UPDATE checkpoint SET seq = 2 WHERE session = 2');
  expect([...(await t.store.checkpoints(made.map(({ id }) => id))).keys()]).toEqual(['c']);
});

it('a checkpoint that cannot be packed is left out, and its events are kept', async () => {
  await using t = tempStore();
  let deep: object = {};
  for (let level = 0; level < 20_000; level++) deep = { deep };
  const checkpoint = { seq: 1, rows: { deep: { ver: 1, val: deep as never } } };
  const { events } = inStep();
  await t.store.append([{ id: root, epoch: 1, header: header('root'), events, checkpoint }]);
  expect((await t.store.inspect(root)).events).toEqual(events);
  expect((await t.store.checkpoints([root])).size).toBe(0);
});
