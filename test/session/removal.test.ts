import { describe, expect, it, vi } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import type { SessionPersistence } from '../../src/session/store.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { settled } from '../support/until.ts';
import { header } from './log-parts.ts';
import { a, codeOf, full, say, setup } from './watched-store.ts';

const [b, c, d] = ['b', 'c', 'd'].map((id) => SessionId(id)) as [SessionId, SessionId, SessionId];

/** `a` with `b` and `d` below it, and `c` below `b`; and `e`, which is by itself. */
async function tree(store: SessionPersistence): Promise<void> {
  const parents = { a: undefined, b: 'a', c: 'b', d: 'a', e: undefined };
  const batch = Object.entries(parents).map(([id, parent]) => ({
    id: SessionId(id),
    epoch: FIRST_EPOCH,
    header: header(id, parent === undefined ? {} : { parentSession: SessionId(parent) }),
    events: [],
  }));
  await store.append(batch);
  await store.release(batch.map(({ id }) => id));
}

const idsIn = async (store: SessionPersistence): Promise<readonly string[]> =>
  (await store.list()).map(({ id }) => id);

describe('removing a session', () => {
  it('removes all that is below it, and says what', async () => {
    const { sessions, store } = setup();
    await tree(store);
    expect(await sessions.remove(b)).toEqual([b, c]);
    expect(await idsIn(store)).toEqual(['a', 'd', 'e']);
    expect(await sessions.remove(a)).toEqual([a, d]);
    expect(await idsIn(store)).toEqual(['e']);
  });

  it('removes it alone when asked to', async () => {
    const { sessions, store } = setup();
    await tree(store);
    expect(await sessions.remove(b, { below: false })).toEqual([b]);
    expect(await idsIn(store)).toEqual(['a', 'c', 'd', 'e']);
  });

  it('ends with a circle of parents', async () => {
    const { sessions, store } = setup();
    const one = {
      id: a,
      epoch: FIRST_EPOCH,
      events: [],
      header: header('a', { parentSession: b }),
    };
    const two = {
      id: b,
      epoch: FIRST_EPOCH,
      events: [],
      header: header('b', { parentSession: a }),
    };
    await store.append([one, two]);
    expect(await sessions.remove(a)).toEqual([a, b]);
  });

  it('finds what is below in a store that only lists', async () => {
    const { sessions, store } = setup();
    await tree(store);
    Object.assign(store, { listBelow: undefined });
    expect(await sessions.remove(a)).toEqual([a, b, d, c]);
  });

  it('is refused for an id that is not there, or for what it does not take', async () => {
    const { sessions } = setup();
    expect(await codeOf(sessions.remove(a))).toBe('SESSION_NOT_FOUND');
    expect(() => sessions.prepare({ id: a })).not.toThrow();
    await expect(sessions.remove(1 as never)).rejects.toThrow(ArgumentError);
    await expect(sessions.remove(a, { below: 1 } as never)).rejects.toThrow(ArgumentError);
    await expect(sessions.remove(a, { under: true } as never)).rejects.toThrow(ArgumentError);
    const { signal } = new AbortController();
    await expect(sessions.remove(a, signal as never)).rejects.toThrow(/given after them/);
    await expect(sessions.remove(a, {}, { signal } as never)).rejects.toThrow(ArgumentError);
  });

  it.each([
    ['is live', true],
    ['is being loaded', false],
  ])('removes nothing when one below it %s, and names that one', async (_, isLive) => {
    const { sessions, store } = setup();
    await tree(store);
    const session = await sessions.load(c);
    if (isLive) sessions.enter(session);
    await expect(sessions.remove(a)).rejects.toThrow(/`c` is live or being loaded/);
    expect(await idsIn(store)).toHaveLength(5);
    await sessions.leave(session);
    expect(await sessions.remove(a)).toHaveLength(4);
  });

  it('removes nothing when one below it is live and not stored yet, and names that one', async () => {
    const { sessions, store } = setup();
    await tree(store);
    const young = SessionId('young');
    const session = sessions.prepare({ id: young, meta: { parentSession: a } });
    sessions.enter(session);
    await expect(sessions.remove(a)).rejects.toThrow(/`young` is live or being loaded/);
    expect(await idsIn(store)).toHaveLength(5);
    await sessions.leave(session);
    expect(await sessions.remove(a)).toEqual([a, b, d, c]);
  });

  it('goes on without one below it that left while it was waited for, and was never stored', async () => {
    const { sessions, store } = setup();
    await tree(store);
    const young = SessionId('young');
    const session = sessions.prepare({ id: young, meta: { parentSession: a } });
    sessions.enter(session);
    session.append('session/end-seed', {});
    sessions.accept(session);
    store.hold = gate();
    store.refuse = full;
    const left = codeOf(sessions.leave(session));
    const removed = sessions.remove(a);
    await settled();
    store.hold.open();
    expect(await left).toBe('STORE_FULL');
    expect(await removed).toEqual([a, b, d, c]);
  });

  it('removes nothing when another process holds one below it, and names that one', async () => {
    await using files = tempStore();
    const other = files.open();
    await tree(files.store);
    const options = { clock: new ManualClock(), logger: silentLogger };
    const sessions = new Sessions({ store: files.store, ...options });
    await other.acquire(c);
    const refused = sessions.remove(a);
    expect(await codeOf(refused)).toBe('SESSION_OWNED_ELSEWHERE');
    await expect(refused).rejects.toThrow(/`c` is held by process/);
    expect(await idsIn(files.store)).toHaveLength(5);
    // Nothing is held any more.
    await other.acquire(a);
    await other.release([a, c]);
    expect(await sessions.remove(a)).toHaveLength(4);
    expect(await idsIn(other)).toEqual(['e']);
    await sessions.close();
  });

  it('lets nothing of it begin to live until it is gone', async () => {
    await using files = tempStore();
    const other = files.open();
    await tree(files.store);
    const options = { clock: new ManualClock(), logger: silentLogger };
    const sessions = new Sessions({ store: files.store, ...options });
    const held = gate();
    const reached = gate();
    const remove = files.store.delete.bind(files.store);
    vi.spyOn(files.store, 'delete').mockImplementation(async (ids) => {
      reached.open();
      await held.wait();
      await remove(ids);
    });
    const removed = sessions.remove(a);
    await reached.wait();
    for (const id of [a, b, c, d]) {
      await expect(sessions.load(id)).rejects.toThrow(ArgumentError);
      expect(() => sessions.prepare({ id })).toThrow(ArgumentError);
      expect(await codeOf(other.acquire(id))).toBe('SESSION_OWNED_ELSEWHERE');
    }
    held.open();
    await removed;
    expect(await codeOf(sessions.load(a))).toBe('SESSION_NOT_FOUND');
    await sessions.close();
  });

  it('finds what came below it until all of it was held', async () => {
    const { sessions, store } = setup();
    await tree(store);
    const acquire = store.acquire.bind(store);
    let isLate = false;
    vi.spyOn(store, 'acquire').mockImplementation(async (id) => {
      // A child that another process started below `c`, and let go of, before `c` was held.
      if (id === c && !isLate) {
        isLate = true;
        const late = header('late', { parentSession: c });
        await store.append([{ id: late.id, epoch: FIRST_EPOCH, header: late, events: [] }]);
      }
      return acquire(id);
    });
    expect(await sessions.remove(a)).toEqual([a, b, d, c, 'late']);
    expect(await idsIn(store)).toEqual(['e']);
  });

  it('goes from below in bounded steps, and leaves a whole tree when one fails', async () => {
    const { sessions, store } = setup();
    const chain = Array.from({ length: 100 }, (_, index) =>
      SessionId(`s${String(index).padStart(3, '0')}`),
    );
    await store.append(
      chain.map((id, index) => ({
        id,
        epoch: FIRST_EPOCH,
        header: header(id, index === 0 ? {} : { parentSession: chain[index - 1]! }),
        events: [],
      })),
    );
    const remove = store.delete.bind(store);
    const spy = vi.spyOn(store, 'delete').mockImplementation(async (ids) => {
      if (ids.includes(chain[40]!)) throw full();
      await remove(ids);
    });
    const released = vi.spyOn(store, 'release');
    expect(await codeOf(sessions.remove(chain[0]!))).toBe('STORE_FULL');
    expect(spy.mock.calls.map(([ids]) => ids.length)).toEqual([32, 32]);
    expect(await idsIn(store)).toEqual(chain.slice(0, 68));
    expect(released).toHaveBeenCalledWith(chain.slice(0, 68));
    spy.mockRestore();
    expect(await sessions.remove(chain[0]!)).toHaveLength(68);
  });

  it('ends with the reason of its signal, and holds nothing', async () => {
    const { sessions, store } = setup();
    await tree(store);
    const controller = new AbortController();
    const reason = new Error('Enough.');
    const acquire = store.acquire.bind(store);
    vi.spyOn(store, 'acquire').mockImplementation(async (id) => {
      if (id === b) controller.abort(reason);
      return acquire(id);
    });
    await expect(sessions.remove(a, {}, controller.signal)).rejects.toBe(reason);
    expect(await idsIn(store)).toHaveLength(5);
    await sessions.release(await sessions.load(a));
  });

  it('waits for the end of a session that is leaving', async () => {
    const { sessions, store } = setup();
    await tree(store);
    const session = await sessions.load(a);
    sessions.enter(session);
    say(session);
    store.hold = gate();
    const left = sessions.leave(session);
    const removed = sessions.remove(a);
    await settled();
    store.hold.open();
    await left;
    expect(await removed).toHaveLength(4);
  });

  it('ends who follows it, also one who waits for it', async () => {
    const { sessions, store } = setup();
    await tree(store);
    const next = codeOf(sessions.follow(c, { forever: true }).next());
    await settled();
    await sessions.remove(a);
    expect(await next).toBe('SESSION_NOT_FOUND');
    expect(await codeOf(sessions.follow(c).next())).toBe('SESSION_NOT_FOUND');
  });
});

it('passes a vacuum on to a store that has one', async () => {
  const { sessions, store } = setup();
  await sessions.vacuum();
  const vacuum = vi.fn<() => Promise<void>>(async () => {});
  Object.assign(store, { vacuum });
  const { signal } = new AbortController();
  await sessions.vacuum(signal);
  expect(vacuum).toHaveBeenCalledWith(signal);
  await expect(sessions.vacuum({ signal } as never)).rejects.toThrow(ArgumentError);
  await sessions.close();
  await expect(sessions.vacuum()).rejects.toThrow(ArgumentError);
});
