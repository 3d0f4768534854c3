/** Logs of sessions that are not live, folded by the built file in a real thread. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createHarness, createUserMessage } from '../../dist/src/index.js';
import type { Harness, ProjectionUnit, SessionId } from '../../dist/src/index.js';
import { systemClock } from '../../dist/src/base/clock.js';
import { silentLogger } from '../../dist/src/base/logger.js';
import { Offload } from '../../dist/src/base/offload.js';
import { ColdFolds, foldEntry } from '../../dist/src/session/projections/cold-folds.js';
import { fixture } from './real.ts';

const units = (await import(fixture('fold-units.mjs').href)) as Readonly<
  Record<'counts' | 'exits' | 'throws' | 'fills' | 'hangs', ProjectionUnit<number, number>>
>;

/** A harness on a file, and what folds its cold sessions, with a count of what was off main. */
async function cold(options: { deadlineMs?: number; memoryMb?: number } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'folds-'));
  const harness: Harness = await createHarness({
    store: join(folder, 'sessions.db'),
    workers: { warm: 0 },
  });
  let jobs = 0;
  class Counted extends Offload {
    override run<T>(...args: Parameters<Offload['run']>): Promise<T> {
      jobs++;
      return super.run<T>(...args);
    }
  }
  const entry = foldEntry() as URL;
  const offload = new Counted({ entry, clock: systemClock, logger: silentLogger, ...options });
  const { sessions, sessionProjections: projections } = harness;
  return {
    harness,
    projections,
    folds: new ColdFolds({ sessions, projections, logger: silentLogger, offload }),
    jobs: () => jobs,
    async left(...texts: readonly string[]): Promise<SessionId> {
      const session = sessions.prepare({ meta: { origin: 'subagent' } });
      sessions.enter(session);
      sessions.accept(session);
      session.append('turn/start', { turn: 1 });
      session.append('subagent/descriptor', {
        version: 1,
        mode: 'continuable',
        provider: 'spawn',
        label: 'reader',
      });
      session.append('step/start', { turn: 1, step: 1 });
      for (const text of texts) session.append('user/message', createUserMessage(text));
      await sessions.leave(session);
      return session.id;
    },
    async [Symbol.asyncDispose]() {
      await offload.close();
      await harness.dispose();
      rmSync(folder, { recursive: true });
    },
  };
}

describe('a thread that folds', () => {
  it('tells of a stored session what a fold on the main thread tells', async () => {
    await using t = await cold();
    const { folds, projections, left } = t;
    projections.register(units.counts);
    const id = await left(...Array.from({ length: 2_000 }, (_, n) => `text ${n}`));
    const { header, values } = await folds.coldSnapshot(id);
    const { events } = await t.harness.sessions.inspect(id);
    expect(events.at(-1)?.type).toBe('turn/end');
    expect(values).toEqual(projections.restore(undefined, events, 0).snapshot.values);
    expect(values).toMatchObject({
      counts: 2_005,
      subagent: { mode: 'continuable', label: 'reader', seq: 1 },
    });
    expect(header.id).toBe(id);
    expect(t.jobs()).toBe(1);
  });

  it.each([
    ['throws', 'PROJECTION_FAILED', {}],
    ['exits', 'WORKER_EXITED', {}],
    ['fills', 'WORKER_OUT_OF_MEMORY', { memoryMb: 64 }],
    ['hangs', 'WORKER_UNRESPONSIVE', { deadlineMs: 3_000 }],
  ] as const)(
    'fails for one session whose unit %s, and goes on with the next',
    async (name, code, more) => {
      await using t = await cold(more);
      const { folds, projections, left } = t;
      const [bad, good] = [await left('bad'), await left('good')];
      // Only now: what a session is kept with is folded on the main thread.
      projections.register(units[name]);
      await expect(folds.coldSnapshot(bad)).rejects.toMatchObject({ code });
      expect((await folds.coldSnapshot(good)).values).toMatchObject({ [name]: 0 });
      expect(t.jobs()).toBe(2);
    },
  );

  it('is given many small logs together, and fails for the one that ends it', async () => {
    await using t = await cold();
    const { folds, projections, left } = t;
    const ids: SessionId[] = [];
    for (let n = 0; n < 24; n++) ids.push(await left(n === 7 ? 'bad' : 'good'));
    projections.register(units.exits);
    const found = await Promise.allSettled(ids.map((id) => folds.coldSnapshot(id)));
    const failed = found.flatMap((one, n) => (one.status === 'rejected' ? [n] : []));
    expect(failed).toEqual([7]);
    expect(found[7]).toMatchObject({ reason: { code: 'WORKER_EXITED' } });
    const togetherAndAlone = t.jobs();
    await folds.coldSnapshot(ids[0]!);
    projections.register(units.counts);
    const good = ids.filter((_, n) => n !== 7);
    expect(t.jobs()).toBe(togetherAndAlone + 1);
    await Promise.all(good.map((id) => folds.coldSnapshot(id)));
    expect(t.jobs() - togetherAndAlone - 1).toBeLessThan(good.length / 2);
  });

  it('goes on for others when one of them is waited for no more', async () => {
    await using t = await cold();
    const { folds, left } = t;
    const ids: SessionId[] = [];
    for (let n = 0; n < 12; n++) ids.push(await left('text'));
    const stop = new AbortController();
    const found = ids.map((id, n) => folds.coldSnapshot(id, n % 2 === 0 ? stop.signal : undefined));
    const settled = Promise.allSettled(found);
    await found[1];
    stop.abort(new Error('enough'));
    for (const [n, one] of (await settled).entries()) {
      if (n % 2 === 1) expect(one.status).toBe('fulfilled');
    }
    expect((await folds.coldSnapshot(ids[0]!)).values).toMatchObject({
      subagent: { label: 'reader' },
    });
  });

  it('is not asked for a unit without a module, nor twice for one that it cannot load', async () => {
    await using t = await cold();
    const { folds, projections, left } = t;
    const { module: _, ...homely } = units.counts;
    const id = await left('one');
    const undo = projections.register(homely);
    expect((await folds.coldSnapshot(id)).values).toMatchObject({ counts: 6 });
    expect(t.jobs()).toBe(0);
    undo();
    projections.register({ ...homely, module: fixture('tools.mjs') });
    for (let n = 0; n < 2; n++) {
      expect((await folds.coldSnapshot(id)).values).toMatchObject({ counts: 6 });
    }
    expect(t.jobs()).toBe(1);
  });

  it('says that a log is damaged as the store itself would', async () => {
    await using t = await cold();
    const id = await t.left('one');
    const { sessions } = t.harness;
    const readStored = sessions.readStored.bind(sessions);
    sessions.readStored = async (...args) => {
      const stored = await readStored(...args);
      if (stored === undefined || !('bodies' in stored)) throw new TypeError('It is not packed.');
      return {
        ...stored,
        bodies: stored.bodies.map((body, n) => (n === 1 ? body.subarray(5) : body)),
      };
    };
    await expect(t.folds.coldSnapshot(id)).rejects.toMatchObject({
      name: 'StoreError',
      code: 'STORE_CORRUPT',
    });
  });
});
