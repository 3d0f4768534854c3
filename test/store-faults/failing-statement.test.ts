/** Every statement of every operation fails once, and from then on, with SQLite's own codes. */
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import { Sql } from '../../src/session/sql.ts';
import type { SqliteStore } from '../../src/session/sqlite-store.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';
import { header, inStep, userMessage } from '../session/log-parts.ts';
import { copyOldFile, oldSessions } from '../session/old-file.ts';
import type { Fault, Watch } from '../support/faulty-sqlite.ts';
import {
  DatabaseSync,
  failing,
  full,
  noMemory,
  readOnly,
  tooBig,
} from '../support/faulty-sqlite.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';

vi.mock('@photostructure/sqlite', () => import('../support/faulty-sqlite.ts'));

const [a, b, c] = ['a', 'b', 'c'].map((id) => SessionId(id)) as [SessionId, SessionId, SessionId];
const log = inStep();
while (log.seq < 6) log.append('user/message', userMessage('x'.repeat(3_000)));
const { events } = log;
const create = (id: SessionId, parent?: SessionId) => ({
  id,
  epoch: 1,
  header: header(id, parent === undefined ? {} : { parentSession: parent }),
  events: events.slice(0, 4),
});
const checkpoint = { seq: 3, rows: { key: { ver: 1, val: 'folded' } } };

/** `a` is held; `b`, its child, is not, and has a checkpoint. */
async function begin(store: SqliteStore): Promise<void> {
  await store.append([create(a), { ...create(b, a), checkpoint }]);
  await store.release([b]);
}

type Operation = (store: SqliteStore) => Promise<unknown>;
const writes: Readonly<Record<string, Operation>> = {
  append: (store) => store.append([{ id: a, epoch: 1, events: events.slice(4) }]),
  'append of a checkpoint': (store) =>
    store.append([{ id: a, epoch: 1, events: events.slice(4), checkpoint: { ...checkpoint, seq: 5 } }]),
  'append of two sessions': (store) =>
    store.append([{ id: a, epoch: 1, events: events.slice(4) }, create(c)]),
  'creation of one that inherits': (store) =>
    store.append([{ ...create(c, a), events, inherits: { id: a, count: 4 } }]),
  acquire: (store) => store.acquire(b),
  renew: (store) => store.renew([a]),
  release: (store) => store.release([a]),
  delete: (store) => store.delete([b]),
}; // prettier-ignore
const reads: Readonly<Record<string, Operation>> = {
  list: (store) => store.list(),
  listBelow: (store) => store.listBelow([a], 3),
  checkpoints: async (store) => [...(await store.checkpoints([a, b]))],
  inspect: (store) => store.inspect(a),
  inspectPacked: (store) => store.inspectPacked(b),
  readFrom: (store) => store.readFrom(a, 1),
};

/** All that a file holds, but for when leases end, as another connection sees it. */
function contents(path: string): unknown {
  const database = new DatabaseSync(path);
  try {
    return new Sql(database).run(
      `SELECT give(id, length, epoch, owner IS NOT NULL, hex(header), parent) FROM session;
      SELECT give(session, seq, length(body)) FROM event;
      SELECT give(session, seq, hex(body)) FROM checkpoint`,
    );
  } finally {
    database.close();
  }
}

let watch: Watch | undefined;
afterEach(() => watch?.end());
const told = {
  name: 'StoreError',
  code: expect.stringMatching(/^STORE_(?:IO|FULL|READ_ONLY)$/) as string,
};

async function life<T>(run: (store: SqliteStore, path: string) => Promise<T>): Promise<T> {
  await using t = tempStore({ durability: 'process', clock: new ManualClock() });
  await begin(t.store);
  return await run(t.store, t.path);
}

/** How many statements an operation is, and what it leaves. */
const measured = (operation: Operation) =>
  life(async (store, path) => {
    const before = contents(path);
    const seen = failing(noMemory);
    const result = await operation(store);
    seen.end();
    return { count: seen.statements.length, before, result, after: contents(path) };
  });

const faults: Readonly<Record<string, Fault>> = { noMemory, tooBig, readOnly, full };

describe.each(Object.keys(writes))('%s', (name) => {
  const operation = writes[name] as Operation;
  it.each(
    Object.keys(faults).flatMap((fault) => [[fault, false] as const, [fault, true] as const]),
  )('keeps nothing when a statement meets %s (and all after it: %s), and works after that', async (fault, forGood) => {
    const { count, before, after } = await measured(operation);
    let refused = 0;
    for (let at = 0; at < count; at++) {
      await life(async (store, path) => {
        watch = failing(faults[fault] as Fault, at, forGood);
        const [end] = await Promise.allSettled([operation(store)]);
        // Before the fault is over: what could not be undone is seen by nobody.
        expect(contents(path)).toEqual(end?.status === 'rejected' ? before : after);
        watch.end();
        if (end?.status !== 'rejected') return;
        refused++;
        expect(end.reason).toMatchObject(told);
        expect(await store.list()).toHaveLength(2);
        expect(contents(path)).toEqual(before);
        await operation(store);
        expect(contents(path)).toEqual(after);
      });
    }
    // The connection may write no more, or find no memory, at any of them; a full disk is none
    // for what needs no more room.
    if (fault !== 'full') expect(refused).toBeGreaterThan(0);
  }); // prettier-ignore
});

describe.each(Object.keys(reads))('%s', (name) => {
  it('rejects when any statement fails, and works after that', async () => {
    const operation = reads[name] as Operation;
    const { count, result } = await measured(operation);
    expect(count).toBeGreaterThan(0);
    for (let at = 0; at < count; at++) {
      for (const fault of [noMemory, tooBig]) {
        await life(async (store) => {
          watch = failing(fault, at);
          await expect(operation(store)).rejects.toMatchObject(told);
          watch.end();
          expect(await operation(store)).toEqual(result);
        });
      }
    }
  });
});

describe('vacuum', () => {
  it('rejects when any statement fails, loses nothing, and works after that', async () => {
    const operation: Operation = (store) => store.vacuum();
    const { count, before } = await measured(operation);
    for (let at = 0; at < count; at++) {
      for (const fault of [noMemory, tooBig]) {
        await life(async (store, path) => {
          watch = failing(fault, at);
          await expect(operation(store)).rejects.toMatchObject(told);
          watch.end();
          expect(contents(path)).toEqual(before);
          await operation(store);
          expect(contents(path)).toEqual(before);
        });
      }
    }
  });
});

describe('opening', () => {
  it.each([
    ['a new file', () => {}, 0],
    ['an old file', copyOldFile, oldSessions.length],
  ] as const)('%s is refused when any statement fails, and works after that', async (_, prepare, length) => {
    await using t = tempStore();
    const at = (n: string | number): string => join(t.folder, `${n}.db`);
    prepare(at('measured'));
    const seen = failing(noMemory);
    const opened = openSqliteStore({ path: at('measured') });
    seen.end();
    await opened.close();
    for (let n = 0; n < seen.statements.length; n++) {
      prepare(at(n));
      watch = failing(tooBig, n);
      expect(() => openSqliteStore({ path: at(n) })).toThrow(expect.objectContaining(told));
      watch.end();
      await using store = openSqliteStore({ path: at(n) });
      expect(await store.list()).toHaveLength(length);
      await store.append([create(c)]);
    }
  }); // prettier-ignore
});

describe('closing', () => {
  it('lets go of the file whatever fails', async () => {
    const { count } = await life(async (store) => {
      const seen = failing(noMemory);
      await store.close();
      seen.end();
      return { count: seen.statements.length };
    });
    for (let at = 0; at < count; at++) {
      await life(async (store, path) => {
        watch = failing(noMemory, at, true);
        await store.close();
        watch.end();
        await using again = openSqliteStore({ path });
        expect(await again.list()).toHaveLength(2);
      });
    }
  });
});
