/** What a store keeps after its refusal was told, and how long a session is held for that. */
import { describe, expect, it } from 'vitest';
import type { SessionId } from '../../protocol/ids.ts';
import type { StoreError } from '../../protocol/errors.ts';
import { SessionId as sessionId } from '../../protocol/ids.ts';
import { gate } from '../../src/base/gate.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import type { OnLost } from '../../src/session/store.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { a, codeOf, keep, say, WatchedStore } from './watched-store.ts';

class Told extends WatchedStore {
  readonly calls: string[] = [];
  lost: OnLost | undefined;
  override async append(...args: Parameters<WatchedStore['append']>): Promise<void> {
    await super.append(...args);
    this.calls.push('append');
  }
  override async release(): Promise<void> {
    this.calls.push('release');
  }
  override async delete(ids: readonly SessionId[]): Promise<void> {
    this.calls.push('delete');
    await super.delete(ids);
  }
  override async close(): Promise<void> {
    this.calls.push('close');
  }
  onLost(listener: OnLost): () => void {
    this.lost = listener;
    return () => {};
  }
}

function setup() {
  const store = new Told();
  const clock = new ManualClock();
  const sessions = new Sessions({ store, clock, logger: silentLogger, patienceMs: 2_000 });
  /** Its end is not waited for any more, while a write of it is in flight. */
  const leave = async (session: ReturnType<typeof keep>) => {
    const left = codeOf(sessions.leave(session));
    await clock.advance(2_000);
    expect(await left).toBe('STORE_IO');
  };
  return { store, clock, sessions, leave };
}

const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 0));

describe('a write that is kept after its session was given up', () => {
  it('leaves no row when it was the first, and its acceptance was refused', async () => {
    const { sessions, store, leave } = setup();
    const hold = gate();
    store.hold = hold;
    const session = keep(sessions);
    say(session);
    const refused = codeOf(session.committed());
    await hold.arrived();
    await leave(session);
    expect(await refused).toBe('STORE_IO');
    hold.open();
    await settled();
    expect(store.calls).toEqual(['append', 'delete', 'release']);
    expect(await store.list()).toEqual([]);
  });

  it('is all there with what came later when nobody was told of a refusal', async () => {
    const { sessions, store, leave } = setup();
    const hold = gate();
    store.hold = hold;
    const session = keep(sessions);
    say(session);
    await hold.arrived();
    say(session);
    await leave(session);
    hold.open();
    await settled();
    expect(store.calls).toEqual(['append', 'append', 'release']);
    expect((await store.inspect(a)).events).toEqual(session.events);
  });

  it('is followed by what takes back the refused, before the session is free', async () => {
    const { sessions, store, leave } = setup();
    const session = keep(sessions);
    say(session);
    await session.committed();
    const hold = gate();
    store.hold = hold;
    say(session, 'refused');
    const withdrawn = session.committed().catch(() => say(session, 'withdrawn'));
    await hold.arrived();
    await leave(session);
    await withdrawn;
    store.hold = undefined;
    const loading = sessions.load(a);
    await settled();
    expect(store.calls).toEqual(['append']);
    hold.open();
    const again = await loading;
    expect(store.calls).toEqual(['append', 'append', 'append', 'release']);
    expect(again.eventsFrom(0, 3)).toEqual(session.events);
    expect(session.events).toHaveLength(3);
  });

  it('adds nothing when it failed', async () => {
    const { sessions, store, leave } = setup();
    const session = keep(sessions);
    say(session);
    await session.committed();
    const hold = gate();
    store.hold = hold;
    store.refuse = () => new Error('Broken.');
    say(session);
    session.committed().catch(() => say(session));
    await hold.arrived();
    await leave(session);
    hold.open();
    await settled();
    expect(store.calls).toEqual(['append', 'release']);
    expect((await store.inspect(a)).events).toHaveLength(1);
  });

  it('is taken back before its store is closed', async () => {
    const { sessions, store, clock } = setup();
    const hold = gate();
    store.hold = hold;
    const session = keep(sessions);
    say(session);
    const refused = codeOf(session.committed());
    await hold.arrived();
    const closed = sessions.close().then(
      () => 'closed',
      ({ message }: Error) => message,
    );
    await clock.advance(10_000);
    expect(await closed).toContain('The store');
    expect(await refused).toBe('STORE_IO');
    hold.open();
    await settled();
    expect(store.calls).toEqual(['append', 'delete', 'release', 'close']);
  });
});

it('writes very many sessions in parts, with time for others in between', async () => {
  const { sessions, store } = setup();
  const all = Array.from({ length: 250 }, (_, index) => keep(sessions, `s${index}`));
  for (const session of all) say(session);
  let ticks = 0;
  const { append } = store;
  const seen: number[] = [];
  store.append = async (batch) => {
    seen.push(ticks);
    await append.call(store, batch);
  };
  const tick = (): void => {
    ticks++;
    if (store.batches.length < 3) setImmediate(tick);
  };
  setImmediate(tick);
  await Promise.all(all.map((session) => session.committed()));
  expect(store.batches.map(({ length }) => length)).toEqual([100, 100, 50]);
  expect(new Set(seen).size).toBe(3);
});

it('ends the keeping of a session that its store finds to be lost, of that very life', async () => {
  const { sessions, store } = setup();
  const session = keep(sessions);
  say(session);
  await session.committed();
  const epoch = store.batches[0]![0]!.epoch;
  const lost: string[] = [];
  sessions.observers.on('session/lost', (of) => lost.push(`${of.session.id} ${of.error.code}`));
  const error = { name: 'StoreError', code: 'STALE_EPOCH' } as StoreError;
  store.lost?.(a, epoch - 1, error);
  store.lost?.(sessionId('b'), epoch, error);
  expect(lost).toEqual([]);
  store.lost?.(a, epoch, error);
  expect(lost).toEqual(['a STALE_EPOCH']);
  say(session);
  expect(await codeOf(session.committed())).toBe('STALE_EPOCH');
  await sessions.leave(session);
  expect(store.calls).toEqual(['append']);
});
