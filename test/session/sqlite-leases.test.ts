/** Who may write a session of a file, for how long, and how it is given back. */
import { hostname } from 'node:os';
import { readlinkSync } from 'node:fs';
import { DatabaseSync } from '@photostructure/sqlite';
import { describe, expect, it, vi } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import { Sql } from '../../src/session/sql.ts';
import { LEASE_MS, RENEW_MS } from '../../src/session/sqlite-leases.ts';
import type { SqliteStore } from '../../src/session/sqlite-store.ts';
import { newOwner } from '../../src/session/store-owner.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { header, inStep } from './log-parts.ts';
import { codeOf } from './watched-store.ts';

const a = SessionId('a');
const { events } = inStep();
const creation = (id = a) => ({ id, epoch: 1, header: header(id), events: events.slice(0, 1) });
const more = (epoch: number) => ({ id: a, epoch, events: events.slice(1) });
const of = (host: string) => ({ ...newOwner(), host });
const HELD = { code: 'SESSION_OWNED_ELSEWHERE' };
const STALE = { code: 'STALE_EPOCH' };
const many = Array.from({ length: 250 }, (_, index) => SessionId(`s${index}`));

/** The lock of a file, held by somebody else. */
function locked(path: string): { letGo(): void } {
  const database = new DatabaseSync(path);
  database.exec('BEGIN IMMEDIATE');
  return {
    letGo() {
      database.exec('ROLLBACK');
      database.close();
    },
  };
}

/** How many transactions it takes. */
async function transactions(run: () => Promise<unknown>): Promise<number> {
  const spy = vi.spyOn(Sql.prototype, 'transaction');
  try {
    await run();
    return spy.mock.calls.length;
  } finally {
    spy.mockRestore();
  }
}

describe('a former owner', () => {
  const takenOver = async () => {
    const clock = new ManualClock();
    const t = tempStore({ clock, owner: of('one') });
    const other = t.open({ owner: of('other') });
    return { ...t, clock, other };
  };

  it('is refused by a session that was made again and came to its very epoch', async () => {
    await using t = await takenOver();
    // Of a process that stands still: it renews nothing.
    const still = t.open({ clock: new ManualClock(), owner: of('still') });
    await still.append([creation()]);
    await still.release([a]);
    expect(await still.acquire(a)).toEqual({ epoch: 2 });
    await t.clock.advance(LEASE_MS);
    await t.other.acquire(a);
    await t.other.delete([a]);
    await t.other.append([creation()]);
    await t.other.release([a]);
    expect(await t.other.acquire(a)).toEqual({ epoch: 2 });
    await expect(still.append([more(2)])).rejects.toMatchObject(STALE);
    await expect(still.renew([a])).rejects.toMatchObject(STALE);
    await still.release([a]);
    await expect(t.store.acquire(a)).rejects.toMatchObject(HELD);
    await t.other.append([more(2)]);
    expect((await t.other.inspect(a)).events).toEqual(events);
  });

  it('neither renews nor frees what is held by the same owner in a later epoch', async () => {
    await using t = await takenOver();
    const twin = t.open({ owner: of('other'), clock: new ManualClock() });
    await twin.append([creation()]);
    const same = t.open({ owner: JSON.parse(ownerIn(t.path)) as never });
    expect(await same.acquire(a)).toEqual({ epoch: 2 });
    await expect(twin.renew([a])).rejects.toMatchObject(STALE);
    await twin.release([a]);
    await expect(t.store.acquire(a)).rejects.toMatchObject(HELD);
  });

  it('is told so by its next renewal, without writing anything', async () => {
    await using t = await takenOver();
    const clock = new ManualClock();
    const still = t.open({ clock, owner: of('still') });
    const lost: unknown[] = [];
    still.onLost((id, epoch, { code }) => lost.push([id, epoch, code]));
    await still.append([creation()]);
    await clock.advance(RENEW_MS);
    expect(lost).toEqual([]);
    await t.clock.advance(2 * LEASE_MS);
    await t.other.acquire(a);
    await clock.advance(RENEW_MS);
    expect(lost).toEqual([[a, 1, 'STALE_EPOCH']]);
    await clock.advance(3 * RENEW_MS);
    expect(lost).toHaveLength(1);
  });
});

const ownerIn = (path: string): string => {
  const database = new DatabaseSync(path);
  const [row] = new Sql(database).run('SELECT give(owner) FROM session');
  database.close();
  return row?.[0] as string;
};

describe('a session that could not be given back', () => {
  const stuck = async () => {
    const clock = new ManualClock();
    const t = tempStore({ clock });
    await t.store.append([creation()]);
    const lock = locked(t.path);
    const released = codeOf(t.store.release([a]));
    await clock.advance(6_000);
    expect(await released).toBe('STORE_IO');
    lock.letGo();
    return { ...t, clock, other: t.open() };
  };

  it('is given back with the next renewal', async () => {
    await using t = await stuck();
    await t.clock.advance(3 * RENEW_MS);
    expect(await t.other.acquire(a)).toEqual({ epoch: 2 });
  });

  it('is given back with the next write', async () => {
    await using t = await stuck();
    await t.store.append([creation(SessionId('b'))]);
    expect(await t.other.acquire(a)).toEqual({ epoch: 2 });
  });

  it('is given back by asking again', async () => {
    await using t = await stuck();
    await t.store.release([a]);
    expect(await t.other.acquire(a)).toEqual({ epoch: 2 });
  });

  it('is given back as the handle closes', async () => {
    await using t = await stuck();
    await t.store.close();
    expect(await t.other.acquire(a)).toEqual({ epoch: 2 });
    expect(t.clock.pending).toBe(1);
  });

  it('stays with its handle when that takes it again', async () => {
    await using t = await stuck();
    expect(await t.store.acquire(a)).toEqual({ epoch: 2 });
    await t.clock.advance(3 * RENEW_MS);
    await t.store.append([more(2)]);
    await expect(t.other.acquire(a)).rejects.toMatchObject(HELD);
  });
});

describe('many sessions at once', () => {
  const held = async () => {
    const t = tempStore({ durability: 'process', clock: new ManualClock() });
    await t.store.append(many.map(creation));
    return t;
  };
  const freeOf = async (store: SqliteStore) => {
    const ends = await Promise.allSettled(many.map((id) => store.acquire(id)));
    return ends.filter(({ status }) => status === 'fulfilled').length;
  };

  it('are given back and taken in a few transactions, each by its own right', async () => {
    await using t = await held();
    const kept = many.slice(0, 7);
    const some = many.slice(7);
    expect(await transactions(() => Promise.all(some.map((id) => t.store.release([id]))))).toBe(3);
    const other = t.open();
    expect(await transactions(() => freeOf(other))).toBe(3);
    for (const id of kept) await expect(other.acquire(id)).rejects.toMatchObject(HELD);
    for (const id of some) await other.renew([id]);
  });

  it('are given back by the transaction that is written in that tick', async () => {
    await using t = await held();
    const both = () =>
      Promise.all([t.store.release([many[0]!]), t.store.append([creation(SessionId('new'))])]);
    expect(await transactions(both)).toBe(1);
    expect(await t.open().acquire(many[0]!)).toEqual({ epoch: 2 });
  });

  it('go on in parts when all leave in one tick: each part after its own transaction', async () => {
    await using t = tempStore();
    await t.store.append(many.map(creation));
    const at: number[] = [];
    const spy = vi.spyOn(Sql.prototype, 'transaction');
    try {
      await Promise.all(
        many.map(async (id) => {
          await t.store.release([id]);
          at.push(spy.mock.calls.length);
        }),
      );
      expect(spy).toHaveBeenCalledTimes(3);
    } finally {
      spy.mockRestore();
    }
    expect([1, 2, 3].map((of) => at.filter((one) => one === of).length)).toEqual([100, 100, 50]);
  });

  it('are told to be taken a few at a time', async () => {
    await using t = tempStore();
    await t.store.append(many.slice(0, 20).map(creation));
    await t.store.release(many.slice(0, 20));
    let round = 0;
    let isOver = false;
    const count = (): void => {
      round++;
      if (!isOver) setImmediate(count);
    };
    setImmediate(count);
    const rounds = await Promise.all(
      many.slice(0, 20).map(async (id) => {
        await t.store.acquire(id);
        return round;
      }),
    );
    isOver = true;
    const most = Math.max(...rounds.map((at) => rounds.filter((one) => one === at).length));
    expect(most).toBeLessThanOrEqual(4);
  });

  it('are renewed, and given back at the end, in parts', async () => {
    await using t = await held();
    expect(await transactions(() => t.store.renew(many))).toBe(3);
    const other = t.open();
    expect(await transactions(() => t.store.close())).toBe(3);
    expect(await freeOf(other)).toBe(many.length);
  });

  it('leave other work its turn between two writes', async () => {
    await using t = await held();
    const seen: string[] = [];
    const writes = [1, 2, 3].map(async (n) => {
      await t.store.append([creation(SessionId(`n${n}`))]);
      seen.push(`write ${n}`);
    });
    let ticks = 0;
    const tick = (): void => {
      seen.push('tick');
      if (++ticks < 4) setImmediate(tick);
    };
    setImmediate(tick);
    await Promise.all(writes);
    expect(seen.slice(0, 5)).toEqual(['write 1', 'tick', 'write 2', 'tick', 'write 3']);
  });
});

it('waits for a lock as long as it says, when the time of day is set back meanwhile', async () => {
  const time = new ManualClock();
  let shift = 0;
  const clock = {
    now: () => time.now() + shift,
    elapsed: () => time.now(),
    after: (ms: number, run: () => void) => time.after(ms, run),
  };
  await using t = tempStore({ clock });
  const lock = locked(t.path);
  const refused = codeOf(t.store.append([creation()]));
  await time.advance(500);
  shift = -60_000;
  await time.advance(5_000);
  expect(await refused).toBe('STORE_IO');
  lock.letGo();
});

it('looks at pids of its own namespace alone', async () => {
  expect(newOwner().host).toBe(`${hostname()}/${readlinkSync('/proc/self/ns/pid')}`);
  const clock = new ManualClock();
  await using t = tempStore({ clock });
  // Another container of this host's name: the pid is of nobody here.
  const owner = { ...of(`${hostname()}/pid:[1]`), pid: 2 ** 22 + 1 };
  await t.open({ owner, clock: new ManualClock() }).append([creation()]);
  await expect(t.store.acquire(a)).rejects.toMatchObject(HELD);
  await clock.advance(LEASE_MS);
  expect(await t.store.acquire(a)).toEqual({ epoch: 2 });
});
