import { describe, expect, it, vi } from 'vitest';
import * as fc from 'fast-check';
import { ProjectionError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { Json } from '../../protocol/json.ts';
import type { SessionEvent, SessionEventType } from '../../protocol/session-events.ts';
import { silentLogger } from '../../src/base/logger.ts';
import type { MemoryStore } from '../../src/session/memory-store.ts';
import type { SessionProjections } from '../../src/session/projections/registry.ts';
import type { Session } from '../../src/session/session.ts';
import { Sessions } from '../../src/session/sessions.ts';
import type { Checkpoint, StoreAppend } from '../../src/session/store.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { counter, projectionsOf, seqs } from './projection-parts.ts';
import { a, full, keep, say, WatchedStore } from './watched-store.ts';

function kept(store = new WatchedStore()) {
  const projections: SessionProjections = projectionsOf({
    observers: { on: (...args: never) => sessions.observers.on(...(args as [never, never])) },
  } as unknown as Sessions);
  const parts = { store, clock: new ManualClock(), logger: silentLogger, projections };
  const sessions = new Sessions(parts);
  return { store, projections, sessions };
}

/** Which writes had a checkpoint, and of which event. */
const marks = ({ batches }: WatchedStore): readonly (number | undefined)[] =>
  batches.flat().map(({ checkpoint }: StoreAppend) => checkpoint?.seq);

const stored = async (store: MemoryStore, id = a): Promise<Checkpoint | undefined> =>
  (await store.checkpoints([id])).get(id);

async function turn(session: Session, number: number): Promise<void> {
  session.append('turn/start', { turn: number });
  await session.committed();
  session.append('turn/end', { turn: number, reason: { kind: 'completed' } });
  await session.committed();
}

describe('a checkpoint of a session', () => {
  it('is written with its first events, with the end of a turn, and with its descriptor', async () => {
    const { store, sessions, projections } = kept();
    projections.register(seqs);
    const session = keep(sessions);
    say(session);
    await session.committed();
    say(session);
    await session.committed();
    await turn(session, 1);
    session.append('subagent/descriptor', { version: 1, mode: 'one-shot', provider: 'spawn' });
    say(session);
    await session.committed();
    say(session);
    await session.committed();
    expect(marks(store)).toEqual([0, undefined, undefined, 3, 5, undefined]);
    expect(await stored(store)).toEqual({
      seq: 5,
      rows: { seqs: { ver: 1, val: [0, 1, 2, 3, 4, 5] } },
    });
    await sessions.close();
  });

  it('is written with the last of what a leaving session holds, and costs no write of its own', async () => {
    const { store, sessions, projections } = kept();
    projections.register(seqs);
    const [busy, idle] = [keep(sessions), keep(sessions, 'idle')];
    await Promise.all([busy.committed(), idle.committed()]);
    say(busy);
    say(idle);
    await idle.committed();
    say(busy);
    await Promise.all([sessions.leave(busy), sessions.leave(idle)]);
    expect(store.written).toEqual(['a:0 idle:0', 'a:1 idle:1', 'a:1']);
    expect((await stored(store))?.seq).toBe(1);
    expect((await stored(store, SessionId('idle')))?.seq).toBe(-1);
  });

  it('never knows more than the events that it is written with', async () => {
    const { store, sessions, projections } = kept();
    projections.register(seqs);
    const session = keep(sessions);
    store.refuse = () => full();
    await expect(session.committed()).rejects.toThrow('full');
    expect(await store.list()).toEqual([]);
    store.refuse = undefined;
    sessions.accept(session);
    await session.committed();
    for (const number of [1, 2, 3]) {
      store.refuse = number === 2 ? () => full() : undefined;
      await turn(session, number).catch(() => {});
      const log = await store.inspect(a);
      const { seq = -1 } = (await stored(store)) ?? {};
      expect(seq).toBeLessThan(log.events.length || 1);
    }
    for (const entry of store.batches.flat()) {
      expect(entry.checkpoint?.seq ?? -1).toBe(
        entry.checkpoint === undefined ? -1 : (entry.events.at(-1)?.seq ?? -1),
      );
    }
    await sessions.close();
  });

  it('is not made for a store that keeps none, nor when nothing is registered', async () => {
    class Plain extends WatchedStore {
      override checkpoints = undefined as never;
    }
    const plain = kept(new Plain());
    plain.projections.register(seqs);
    const none = kept();
    for (const { sessions } of [plain, none]) {
      await turn(keep(sessions), 1);
      await sessions.close();
    }
    expect(new Set([...marks(plain.store), ...marks(none.store)])).toEqual(new Set([undefined]));
  });

  it('does without a unit that throws, and the session is kept all the same', async () => {
    const { store, sessions, projections } = kept();
    projections.register(seqs);
    projections.register({
      ...counter('broken', 'turn/end'),
      apply: () => {
        throw new RangeError('A unit that is wrong.');
      },
    });
    const session = keep(sessions);
    await turn(session, 1);
    expect(Object.keys((await stored(store))?.rows ?? {})).toEqual(['seqs']);
    expect(session.durable).toBe(2);
    await sessions.close();
  });
});

describe('a resumed session', () => {
  async function left(count: number) {
    const { store, sessions, projections } = kept();
    projections.register(seqs);
    const session = keep(sessions);
    await turn(session, 1);
    for (let n = 0; n < count; n++) {
      say(session);
      await session.committed();
    }
    await sessions.leave(session);
    return store;
  }

  it('goes on folding from its checkpoint, and folds only what came after it', async () => {
    const store = await left(2);
    const next = kept(store);
    const apply = vi.fn<typeof seqs.apply>(seqs.apply);
    next.projections.register({ ...seqs, apply });
    const session = await next.sessions.load(a);
    expect((await stored(store))?.seq).toBe(1);
    expect(next.projections.snapshot(session)).toEqual({
      asOfSeq: 4,
      values: { seqs: [0, 1, 2, 3, 4] },
    });
    expect(apply).toHaveBeenCalledTimes(3);
    await next.sessions.close();
  });

  it.each<[string, (store: WatchedStore) => void]>([
    ['is of another version', (store) => replace(store, { seqs: { ver: 2, val: [0, 1] } })],
    ['is damaged', (store) => replace(store, { seqs: { ver: 1, val: ['one'] } })],
    ['is missing', (store) => replace(store, {})],
    ['cannot be read', (store) => void (store.checkpoints = () => Promise.reject(full()))],
    [
      'cannot be asked for',
      (store) =>
        void (store.checkpoints = () => {
          throw full();
        }),
    ],
    ['is promised by nobody', (store) => void (store.checkpoints = () => undefined as never)],
    ['is nothing', (store) => void (store.checkpoints = async () => ({}) as never)],
    [
      'has no rows',
      (store) =>
        void (store.checkpoints = async () => new Map([[a, { seq: 1 } as unknown as Checkpoint]])),
    ],
  ])('folds its log when its checkpoint %s', async (_, spoil) => {
    const store = await left(1);
    spoil(store);
    const next = kept(store);
    next.projections.register(seqs);
    const session = await next.sessions.load(a);
    expect(next.projections.snapshot(session).values).toEqual({ seqs: [0, 1, 2, 3] });
    await session.committed();
    // The first write of it heals what the store has.
    expect(store.batches.at(-1)?.[0]?.checkpoint?.rows).toEqual({
      seqs: { ver: 1, val: [0, 1, 2, 3] },
    });
    await next.sessions.close();
  });

  function replace(store: WatchedStore, rows: Checkpoint['rows']): void {
    store.checkpoints = () => Promise.resolve(new Map([[a, { seq: 1, rows }]]));
  }

  it('has the turn that a crash cut off closed in its checkpoint as well', async () => {
    const { store, sessions, projections } = kept();
    projections.register(seqs);
    const session = keep(sessions);
    await turn(session, 1);
    session.append('turn/start', { turn: 2 });
    await session.committed();
    const next = kept(store);
    next.projections.register(seqs);
    await next.sessions.load(a);
    expect((await stored(store))?.seq).toBe(3);
    await Promise.all([sessions.close(), next.sessions.close()]).catch(() => {});
  });
});

const TYPES: readonly SessionEventType[] = ['user/message', 'turn/start', 'turn/end', 'llm/retry'];
/** Not a log that a session would take: units see events one by one, and have to cope. */
const events = fc
  .array(fc.constantFrom(...TYPES), { maxLength: 40 })
  .map((types) =>
    types.map((type, seq) => ({ type, seq, time: seq, data: {} }) as unknown as SessionEvent),
  );

describe('restoring a projection', () => {
  const units = [seqs, counter('told', 'user/message'), counter('turns', 'turn/start')];
  const registry = (): SessionProjections => {
    const { projections } = kept();
    for (const unit of units) projections.register<Json, Json>(unit as never);
    return projections;
  };

  it('gives what one fold gives, wherever the log is parted, with checkpoints in between', () => {
    const projections = registry();
    fc.assert(
      fc.property(events, fc.array(fc.nat(40), { maxLength: 4 }), (log, cuts) => {
        const whole = projections.restore(undefined, log, 0);
        let checkpoint: Checkpoint | undefined;
        let from = 0;
        for (const cut of [...cuts, log.length].sort((one, other) => one - other)) {
          const to = Math.min(cut, log.length);
          const part = projections.restore(checkpoint, log.slice(from, to), from);
          // As it is after a store had it.
          checkpoint = JSON.parse(JSON.stringify(part.checkpoint)) as Checkpoint;
          from = to;
          expect(projections.viewCheckpoint(checkpoint)).toEqual(part.snapshot);
        }
        expect(checkpoint).toEqual(whole.checkpoint);
        // From any checkpoint, with more of the log than it needs.
        const { checkpoint: early } = projections.restore(undefined, log.slice(0, cuts[0] ?? 0), 0);
        expect(projections.restore(early, log, 0)).toEqual(whole);
      }),
    );
  });

  it('throws when what is kept does not lead up to the events it is given', () => {
    const projections = registry();
    const log = fc.sample(events, 50).find((sample) => sample.length > 5)!;
    const { checkpoint } = projections.restore(undefined, log.slice(0, 3), 0);
    const rest = (given: Checkpoint | undefined, from: number) => () =>
      projections.restore(given, log.slice(from), from);
    const { told: _, ...others } = checkpoint.rows;
    expect(rest(checkpoint, 3)).not.toThrow();
    expect(rest(checkpoint, 2)).not.toThrow();
    expect(rest(undefined, 3)).toThrow(ProjectionError);
    expect(rest(checkpoint, 4)).toThrow(/"seqs".*event 4/);
    expect(rest({ seq: 2, rows: others }, 3)).toThrow(/"told"/);
    expect(rest({ ...checkpoint, seq: log.length }, 3)).toThrow(ProjectionError);
    expect(rest({ seq: 2, rows: others }, 0)).not.toThrow();
  });
});
