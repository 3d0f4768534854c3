import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import { BATCH_WINDOW_MS } from '../../src/session/commit-queue.ts';
import { gate } from '../support/gate.ts';
import { until } from '../support/until.ts';
import { a, codeOf, full, keep, say, setup } from './watched-store.ts';

describe('a session that is not accepted', () => {
  it('leaves no trace in the store, whatever is asked for it', async () => {
    const { sessions, store } = setup();
    const session = sessions.prepare({ id: a, seed: [] });
    sessions.enter(session);
    say(session);
    await sessions.flush(session);
    await sessions.leave(session);
    expect(store.batches).toEqual([]);
    expect(session.durable).toBe(0);
  });

  it('is written whole with its acceptance, in one write with what others append then', async () => {
    const { sessions, store } = setup();
    const parent = keep(sessions, 'parent');
    await parent.committed();
    const child = sessions.prepare({ id: SessionId('child'), seed: [] });
    sessions.enter(child);
    const committed = child.committed();
    say(child);
    say(parent);
    sessions.accept(child);
    say(child);
    sessions.accept(child);
    await Promise.all([committed, child.committed()]);
    expect(store.written).toEqual(['parent:0', 'parent:1 child:3']);
    expect(store.batches[1]?.[1]?.header).toBe(child.header);
    expect(child.durable).toBe(3);
  });

  it('rejects who waits for it to be committed, when it is given up', async () => {
    const { sessions } = setup();
    const session = sessions.prepare({ id: a });
    const committed = session.committed();
    await Promise.all([
      expect(committed).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' }),
      sessions.release(session),
    ]);
  });
});

describe('an acceptance whose write fails', () => {
  const failing = async () => {
    const t = setup();
    t.store.refuse = full;
    const session = keep(t.sessions);
    say(session);
    await expect(session.committed()).rejects.toMatchObject({ code: 'STORE_FULL' });
    t.store.refuse = undefined;
    return { ...t, session };
  };

  it('leaves no row when the session then leaves, whatever was appended meanwhile', async () => {
    const { sessions, store, session } = await failing();
    say(session);
    await sessions.leave(session);
    expect(await store.list()).toEqual([]);
    expect(store.batches).toHaveLength(1);
  });

  it('goes on failing until it is accepted again, and then holds everything', async () => {
    const { sessions, store, session } = await failing();
    say(session);
    await expect(session.committed()).rejects.toMatchObject({ code: 'STORE_FULL' });
    await expect(sessions.flush(session)).rejects.toMatchObject({ code: 'STORE_FULL' });
    sessions.accept(session);
    await session.committed();
    expect((await store.inspect(a)).events).toEqual(session.events);
  });
});

describe('commits', () => {
  it('hold what all sessions appended in one tick', async () => {
    const { sessions, store } = setup();
    const [one, two] = [keep(sessions, 'one'), keep(sessions, 'two')];
    say(one);
    say(two);
    await Promise.resolve();
    say(one);
    await Promise.all([one.committed(), two.committed()]);
    expect(store.written).toEqual(['one:2 two:1']);
  });

  it('are made one at a time; what comes meanwhile is the next one', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    await session.committed();
    store.hold = gate();
    say(session);
    const first = session.committed();
    await until(() => store.batches.length === 2);
    say(session);
    say(session);
    const second = session.committed();
    expect(session.durable).toBe(0);
    store.hold.open();
    await first;
    expect(session.durable).toBe(1);
    await second;
    expect([session.durable, store.written]).toEqual([3, ['a:0', 'a:1', 'a:2']]);
  });

  it('happen without anybody waiting for them', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    say(session);
    await until(() => session.durable === 1);
    expect(store.written).toEqual(['a:1']);
    await session.committed();
    await sessions.flush(session);
    expect(store.batches).toHaveLength(1);
  });
});

describe('a commit that fails', () => {
  it('rejects who waits for it; its events are written in order with the next one', async () => {
    const { sessions, store, logger } = setup();
    const session = keep(sessions);
    await session.committed();
    store.refuse = full;
    say(session, 'one');
    await expect(session.committed()).rejects.toMatchObject({ code: 'STORE_FULL' });
    expect(logger.warn).toHaveBeenCalledTimes(1);
    store.refuse = undefined;
    say(session, 'two');
    await until(() => session.durable === 2);
    expect((await store.inspect(a)).events).toEqual(session.events);
  });

  it('is made again by who asks, and by the next write of any session', async () => {
    const { sessions, store } = setup();
    const [one, two] = [keep(sessions, 'one'), keep(sessions, 'two')];
    await Promise.all([one.committed(), two.committed()]);
    store.refuse = () => new StoreError('STORE_IO', 'It failed.');
    say(one);
    await expect(sessions.flush(one)).rejects.toMatchObject({ code: 'STORE_IO' });
    await expect(one.committed()).rejects.toMatchObject({ code: 'STORE_IO' });
    store.refuse = undefined;
    say(two);
    await two.committed();
    expect([one.durable, two.durable]).toEqual([1, 1]);
  });

  it('does not reject who waits for a later one', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    await session.committed();
    const held = (store.hold = gate());
    store.refuse = () => {
      store.refuse = undefined;
      return full();
    };
    say(session);
    const first = codeOf(session.committed());
    await until(() => store.batches.length === 2);
    say(session);
    const second = session.committed();
    const flushed = sessions.flush(session);
    held.open();
    expect(await first).toBe('STORE_FULL');
    await Promise.all([second, flushed]);
    expect(session.durable).toBe(2);
  });

  it('is made again by a flush that came while it was under way', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    await session.committed();
    const held = (store.hold = gate());
    store.refuse = () => {
      store.refuse = undefined;
      return full();
    };
    say(session);
    await until(() => store.batches.length === 2);
    const flushed = sessions.flush(session);
    held.open();
    await flushed;
    expect([session.durable, store.written]).toEqual([1, ['a:0', 'a:1', 'a:1']]);
  });

  it('fails no neighbour of the session it is about, and tells when that one is lost', async () => {
    const { sessions, store } = setup();
    const [one, two] = [keep(sessions, 'one'), keep(sessions, 'two')];
    await Promise.all([one.committed(), two.committed()]);
    const lost: string[] = [];
    sessions.observers.on('session/lost', ({ session, error }) => {
      lost.push(`${session.id} ${error.code}`);
    });
    await store.acquire(one.id);
    say(one);
    say(two);
    const gone = codeOf(one.committed());
    await two.committed();
    expect(await gone).toBe('STALE_EPOCH');
    say(one);
    await expect(one.committed()).rejects.toMatchObject({ code: 'STALE_EPOCH' });
    await expect(sessions.flush(one)).rejects.toMatchObject({ code: 'STALE_EPOCH' });
    expect(lost).toEqual(['one STALE_EPOCH']);
    expect((await store.inspect(one.id)).events).toEqual([]);
    await sessions.leave(one);
    expect(store.written).toEqual(['one:0 two:0', 'one:1 two:1', 'one:1', 'two:1']);
  });

  it('writes a session that alone is refused apart from the others, and warns once', async () => {
    const { sessions, store, logger } = setup();
    const [bad, good] = [keep(sessions, 'bad'), keep(sessions, 'good')];
    await Promise.all([bad.committed(), good.committed()]);
    store.refuse = (batch) => (batch.some(({ id }) => id === 'bad') ? full() : undefined);
    for (let round = 1; round <= 3; round++) {
      say(bad);
      say(good);
      const refused = codeOf(bad.committed());
      await good.committed();
      expect(await refused).toBe('STORE_FULL');
    }
    expect(good.durable).toBe(3);
    expect(store.written.slice(1)).toEqual(
      ['bad:1 good:1', 'bad:1', 'good:1', 'good:1', 'bad:2', 'good:1', 'bad:3'],
    ); // prettier-ignore
    expect(logger.warn).toHaveBeenCalledTimes(1);
  });

  it('is a failure of the store when what it throws is no error of a store', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    store.refuse = () => new TypeError('a fault');
    await expect(session.committed()).rejects.toMatchObject({ name: 'StoreError' });
  });
});

describe('batched durability', () => {
  it('does not make anybody wait, and gathers for a while', async () => {
    const { sessions, store, clock } = setup('batched');
    const session = keep(sessions);
    say(session);
    await session.committed();
    await clock.advance(BATCH_WINDOW_MS - 1);
    say(session);
    expect(store.batches).toEqual([]);
    await clock.advance(1);
    expect(store.written).toEqual(['a:2']);
  });

  it('writes the rest when it is flushed or leaves', async () => {
    const { sessions, store } = setup('batched');
    const session = keep(sessions);
    say(session);
    await sessions.flush(session);
    say(session);
    await sessions.leave(session);
    expect(store.written).toEqual(['a:1', 'a:1']);
  });
});
