/** Sessions that are not live, folded on this thread; `threads/cold-folds.test.ts` has real ones. */
import { describe, expect, it, vi } from 'vitest';
import { ProjectionError, StoreError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { Json } from '../../protocol/json.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { ColdFolds, COLD_AT_ONCE, foldEntry } from '../../src/session/projections/cold-folds.ts';
import { foldJob } from '../../src/session/projections/cold-fold.ts';
import { joinBodies } from '../../src/session/projections/packed-log.ts';
import { Sessions } from '../../src/session/sessions.ts';
import type { SessionPersistence } from '../../src/session/store.ts';
import { subagentIdentity } from '../../src/subagents/identity-projection.ts';
import { subagentTiming } from '../../src/subagents/timing-projection.ts';
import type { Gate } from '../support/gate.ts';
import { gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { settled, until } from '../support/until.ts';
import { counter, projectionsOf, seqs } from './projection-parts.ts';
import { a, keep, say, WatchedStore } from './watched-store.ts';

/** A store whose readings and releases can be held and counted. */
class SlowStore extends WatchedStore {
  reads = 0;
  holdReads: Gate | undefined;
  holdRelease: Gate | undefined;
  isReleased = false;

  override async inspectPacked(...args: Parameters<WatchedStore['inspectPacked']>) {
    this.reads++;
    await this.holdReads?.wait();
    return super.inspectPacked(...args);
  }

  override async release(): Promise<void> {
    await this.holdRelease?.wait();
    await super.release();
    this.isReleased = true;
  }
}

function cold<S extends SessionPersistence>(store: S) {
  const sessions = new Sessions({ store, clock: new ManualClock(), logger: silentLogger });
  const projections = projectionsOf(sessions);
  const folds = new ColdFolds({ sessions, projections, logger: silentLogger });
  return { store, sessions, projections, folds };
}

async function left(sessions: Sessions, id = 'a', more = 1): Promise<SessionId> {
  const session = keep(sessions, id);
  for (let n = 0; n < more; n++) say(session);
  await sessions.leave(session);
  return session.id;
}

describe('a session that is not live', () => {
  it('shows what its log folds to, as it would be resumed', async () => {
    const { sessions, projections, folds } = cold(new SlowStore());
    for (const unit of [seqs, counter('turns', 'turn/end')]) {
      projections.register<Json, Json>(unit as never);
    }
    const session = keep(sessions);
    session.append('turn/start', { turn: 1 });
    await session.committed();
    await sessions.leave(session);
    expect(await folds.coldSnapshot(a)).toEqual({
      header: session.header,
      values: { seqs: [0, 1], turns: 1 },
    });
    expect((await sessions.store.inspect(a)).events).toHaveLength(1);
  });

  it('shows the same from a file, where its events are packed', async () => {
    await using temp = tempStore();
    const { sessions, projections, folds } = cold(temp.store);
    projections.register(seqs);
    await left(sessions, 'a', 1_500);
    const { values } = await folds.coldSnapshot(a);
    expect(values).toEqual(
      projections.restore(undefined, (await sessions.inspect(a)).events, 0).snapshot.values,
    );
    await sessions.close();
  });

  it('is read once for all who ask at the same time, and again for who asks later', async () => {
    const { sessions, projections, folds, store } = cold(new SlowStore());
    projections.register(seqs);
    await left(sessions);
    store.holdReads = gate();
    const both = [folds.coldSnapshot(a), folds.coldSnapshot(a)];
    await until(() => store.reads === 1);
    store.holdReads.open();
    const [one, two] = await Promise.all(both);
    expect(one).toBe(two);
    await folds.coldSnapshot(a);
    expect(store.reads).toBe(2);
    // Who came with another unit is not given what was begun without it.
    store.holdReads = gate();
    const before = folds.coldSnapshot(a);
    projections.register(counter('told', 'user/message'));
    const after = folds.coldSnapshot(a);
    await until(() => store.reads === 4);
    store.holdReads.open();
    expect([(await before).values, (await after).values]).toEqual([
      { seqs: [0] },
      { seqs: [0], told: 1 },
    ]);
  });

  it('is still read for the others when one who asked goes away', async () => {
    const { sessions, projections, folds, store } = cold(new SlowStore());
    projections.register(seqs);
    await left(sessions);
    const held = (store.holdReads = gate());
    const stop = new AbortController();
    const [gone, waits] = [folds.coldSnapshot(a, stop.signal), folds.coldSnapshot(a)];
    await until(() => store.reads === 1);
    stop.abort('gone');
    await expect(gone).rejects.toBe('gone');
    held.open();
    expect((await waits).values).toEqual({ seqs: [0] });
    expect(store.reads).toBe(1);
  });

  it('is let go of when all who asked have gone, and read anew for who comes then', async () => {
    const { sessions, projections, folds, store } = cold(new SlowStore());
    projections.register(seqs);
    await left(sessions);
    const held = (store.holdReads = gate());
    const stop = new AbortController();
    const gone = folds.coldSnapshot(a, stop.signal);
    await until(() => store.reads === 1);
    stop.abort('gone');
    await expect(gone).rejects.toBe('gone');
    const next = folds.coldSnapshot(a);
    await until(() => store.reads === 2);
    held.open();
    expect((await next).values).toEqual({ seqs: [0] });
    await expect(folds.coldSnapshot(a, stop.signal)).rejects.toBe('gone');
  });

  it(`is read with at most ${COLD_AT_ONCE} at once`, async () => {
    const { sessions, projections, folds, store } = cold(new SlowStore());
    projections.register(seqs);
    const ids = await Promise.all(['1', '2', '3', '4', '5', '6'].map((id) => left(sessions, id)));
    const held = (store.holdReads = gate());
    const all = Promise.all(ids.map((id) => folds.coldSnapshot(id)));
    await until(() => store.reads === COLD_AT_ONCE);
    await settled();
    expect(store.reads).toBe(COLD_AT_ONCE);
    held.open();
    expect(await all).toHaveLength(6);
  });

  it('tells what cannot be read from what cannot be folded', async () => {
    const { sessions, projections, folds } = cold(new SlowStore());
    projections.register({
      ...counter('broken', 'user/message'),
      apply: () => {
        throw new RangeError('A unit that is wrong.');
      },
    });
    await left(sessions);
    await expect(folds.coldSnapshot(a)).rejects.toBeInstanceOf(ProjectionError);
    const missing = folds.coldSnapshot(SessionId('missing'));
    await expect(missing).rejects.toBeInstanceOf(StoreError);
  });

  it('is shown as it is when it is live by then, and waited for while it leaves', async () => {
    const { sessions, projections, folds, store } = cold(new SlowStore());
    projections.register(seqs);
    const session = keep(sessions);
    say(session);
    expect((await folds.coldSnapshot(a)).values).toEqual({ seqs: [0] });
    await session.committed();
    store.holdRelease = gate();
    const leaving = sessions.leave(session);
    const shown = folds.coldSnapshot(a);
    await settled();
    expect(store.reads).toBe(0);
    store.holdRelease.open();
    await leaving;
    expect((await shown).values).toEqual({ seqs: [0] });
    expect(store.reads).toBe(1);
  });

  it('shows what its checkpoint holds, without being read', async () => {
    const store = new SlowStore();
    const clock = new ManualClock();
    const { projections, folds } = cold(store);
    projections.register(seqs);
    const sessions = new Sessions({ store, clock, logger: silentLogger, projections });
    const ids = await Promise.all(['a', 'b'].map((id) => left(sessions, id, 2)));
    const headers = [...(await store.list())];
    const cached = await folds.cachedSnapshots(headers);
    expect([...cached]).toEqual(ids.map((id) => [id, { asOfSeq: 1, values: { seqs: [0, 1] } }]));
    expect(store.reads).toBe(0);
    const signal = AbortSignal.abort('gone');
    await expect(folds.cachedSnapshots(headers, signal)).rejects.toBe('gone');
    vi.spyOn(store, 'checkpoints').mockRejectedValue(new StoreError('STORE_IO', 'No.'));
    expect(await folds.cachedSnapshots(headers)).toEqual(new Map());
    vi.spyOn(store, 'checkpoints').mockImplementation(() => {
      throw new TypeError('No.');
    });
    expect(await folds.cachedSnapshots(headers)).toEqual(new Map());
    vi.spyOn(store, 'checkpoints').mockResolvedValue(undefined as never);
    expect(await folds.cachedSnapshots(headers)).toEqual(new Map());
  });
});

describe('a session that is leaving', () => {
  it('is at every instant among the live ones or in the store, and in the end in the store', async () => {
    const { sessions, store } = cold(new SlowStore());
    const session = keep(sessions);
    const isLive = (): boolean => sessions.list().includes(session);
    const isStored = async (): Promise<boolean> => (await store.list()).length === 1;
    // Its only write is held, then its release.
    store.hold = gate();
    store.holdRelease = gate();
    say(session);
    const told = new Promise<readonly boolean[]>((resolve) => {
      sessions.observers.on('session/disposed', async () =>
        resolve([isLive(), await isStored(), store.isReleased]),
      );
    });
    const leaving = sessions.leave(session);
    await settled();
    expect([isLive(), await isStored()]).toEqual([true, false]);
    store.hold.open();
    await settled();
    expect([isLive(), await isStored(), store.isReleased]).toEqual([true, true, false]);
    const inspected = sessions.inspect(a);
    store.holdRelease.open();
    expect(await told).toEqual([false, true, true]);
    await leaving;
    expect((await inspected).events).toHaveLength(1);
  });
});

describe('a job for a thread that folds', () => {
  const header = { version: 0, id: a, createdAt: 0 } as const;
  const log = joinBodies([]);
  const want = (key: string, stateVersion: number, module: string) =>
    foldJob({ header, log, units: [{ key, stateVersion, module }] }, (url) => import(url));
  const modules = [subagentIdentity, subagentTiming].map(({ module }) => String(module));

  it('finds units by the modules that they name', async () => {
    expect(await want('subagent', 2, modules[0]!)).toEqual({
      kind: 'folded',
      values: { subagent: null },
    });
    expect(await want('subagentTiming', 2, modules[1]!)).toMatchObject({ kind: 'folded' });
  });

  it('says which it could not load, instead of folding', async () => {
    const unloadable = { kind: 'unloadable', keys: ['subagent'] };
    expect(await want('subagent', 3, modules[0]!)).toMatchObject(unloadable);
    expect(await want('subagent', 2, modules[1]!)).toMatchObject(unloadable);
    expect(await want('subagent', 2, 'file:///missing.js')).toMatchObject(unloadable);
  });

  it('has no file beside the sources', () => {
    expect(foldEntry()).toBeUndefined();
  });
});
