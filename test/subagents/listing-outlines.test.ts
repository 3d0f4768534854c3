/** Listings of a SQLite store: it gives outlines, and no header is read for who is told by them. */
import { describe, expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import { silentLogger } from '../../src/base/logger.ts';
import type { SqliteStore } from '../../src/session/sqlite-store.ts';
import type { Checkpoint, SessionPersistence } from '../../src/session/store.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { subagentIdentity } from '../../src/subagents/identity-projection.ts';
import { damage } from '../session/damage.ts';
import { projectionsOf } from '../session/projection-parts.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { ROOT, headerOf, identityAt, logOf, serviceOf } from './listing-parts.ts';
import type { Made } from './listing-parts.ts';

type Entry = Made & { readonly id: string; readonly checkpoint?: Checkpoint };

const keep = (store: SqliteStore, entries: readonly Entry[]): Promise<void> =>
  store.append(
    entries.map(({ id, checkpoint, ...made }) => {
      const header = headerOf(id, made);
      const kept = checkpoint === undefined ? {} : { checkpoint };
      return { id: header.id, epoch: FIRST_EPOCH, header, events: logOf(id, made), ...kept };
    }),
  );

function serviceOn(persistence: SessionPersistence) {
  const clock = new ManualClock(1);
  const sessions = new Sessions({ store: persistence, clock, logger: silentLogger });
  const projections = projectionsOf(sessions);
  projections.register(subagentIdentity);
  return serviceOf({ projections, sessions, persistence });
}

/** The same file for a listing that is given headers, and what is read of logs. */
function seen(store: SqliteStore, difference: Partial<SessionHeader> = {}) {
  const read: string[] = [];
  const inspect: SessionPersistence['inspect'] = async (id, signal) => {
    read.push(id);
    const { header, events } = await store.inspect(id, signal);
    return { header: { ...header, ...difference }, events };
  };
  const bare: SessionPersistence = {
    list: (...given) => store.list(...given),
    listBelow: (...given) => store.listBelow(...given),
    checkpoints: (...given) => store.checkpoints(...given),
    inspect,
    readFrom: (...given) => store.readFrom(...given),
    acquire: (id) => store.acquire(id),
    append: (batch) => store.append(batch),
    renew: (ids) => store.renew(ids),
    release: (ids) => store.release(ids),
    delete: (ids) => store.delete(ids),
    close: () => store.close(),
  };
  const outlined: SessionPersistence = {
    ...bare,
    outlineBelow: (...given) => store.outlineBelow(...given),
  };
  return { read, byHeaders: serviceOn(bare), byOutlines: serviceOn(outlined) };
}

const proven = (id: string, more: Made = {}): Entry => ({
  id,
  ...more,
  checkpoint: identityAt(0, id),
});

describe('a listing by outlines', () => {
  it('is the one by headers, and reads only the logs that checkpoints do not speak for', async () => {
    await using t = tempStore();
    await keep(t.store, [
      proven('a'),
      { ...proven('b', { parent: 'a' }), says: 'one-shot', checkpoint: { seq: 0, rows: {} } },
      { id: 'c', parent: 'b', says: 'one-shot' },
      proven('d', { parent: 'c', isOrdinary: true }),
      proven('e', { parent: 'd' }),
      // What an ancestor was.
      proven('f', { header: { seedLength: 1 }, says: [{ label: 'old' }, { label: 'own' }] }),
      { id: 'g', says: 'none' },
      proven('root', { parent: 'e' }),
      proven('elsewhere', { parent: 'other' }),
    ]);
    const { read, byHeaders, byOutlines } = seen(t.store);
    const expected = [
      'a inactive continuable "a" + of root',
      '> b inactive one-shot + of a',
      '> > c inactive one-shot of b',
      '> > > > e inactive continuable "e" of d',
      'f inactive continuable "own" of root',
      'g corrupt of root',
    ];
    expect(await byOutlines.descendants()).toEqual(expected);
    expect(read.sort()).toEqual(['b', 'c', 'f', 'g']);
    expect(await byHeaders.descendants()).toEqual(expected);
    expect(await byOutlines.children()).toEqual(await byHeaders.children());
  });

  it.each([
    ['that cannot be read', "SET body = '{'"],
    ['of more than its log', 'SET seq = 1'],
    ['of less than nothing', 'SET seq = -2'],
    ['whose rows are none', `SET body = '[]'`],
    ['with a row that is none', `SET body = '{"subagent":null}'`],
  ])('asks the log beside a checkpoint %s', async (_, change) => {
    await using t = tempStore();
    await keep(t.store, [
      { id: 'a', says: { label: 'by log' }, checkpoint: identityAt(0, 'kept') },
    ]);
    expect(await seen(t.store).byOutlines.children()).toEqual(['a inactive continuable "kept"']);
    damage(t.path, `UPDATE checkpoint ${change}`);
    const { read, byOutlines } = seen(t.store);
    expect(await byOutlines.children()).toEqual(['a inactive continuable "by log"']);
    expect(read).toEqual(['a']);
  });

  it('shows a child whose header was damaged since, as long as nobody has to read it', async () => {
    await using t = tempStore();
    await keep(t.store, [proven('a'), { id: 'b' }]);
    damage(t.path, "UPDATE session SET header = x'c1'");
    expect(await seen(t.store).byOutlines.children()).toEqual([
      'a inactive continuable "a"',
      'b unavailable',
    ]);
  });

  it.each([
    ['createdAt', { createdAt: 9 }],
    ['parentSession', { parentSession: SessionId('other') }],
    ['seedLength', { seedLength: 0 }],
  ])('calls corrupt what was replaced by a session with another %s', async (_, difference) => {
    await using t = tempStore();
    await keep(t.store, [{ id: 'a' }]);
    expect(await seen(t.store, difference).byOutlines.children()).toEqual(['a corrupt']);
  });

  it('goes through pages of children, and of parents, and misses none', async () => {
    await using t = tempStore();
    const wide = Array.from({ length: 450 }, (_, index) => proven(`w${index}`));
    const below = wide.flatMap(({ id }) => [
      proven(`${id}.0`, { parent: id }),
      proven(`${id}.1`, { parent: id }),
    ]);
    await keep(t.store, [...wide, ...below, proven('root', { parent: 'w449.1' })]);
    const { byHeaders, byOutlines } = seen(t.store);
    const rows = await byOutlines.descendants(ROOT);
    expect(rows).toHaveLength(1_350);
    expect(new Set(rows).size).toBe(1_350);
    expect(rows).toEqual(await byHeaders.descendants(ROOT));
  });
});
