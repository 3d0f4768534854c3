/** What changes while a listing reads, and callers who stop waiting. */
import { describe, expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import { deferred } from '../../src/base/deferred.ts';
import { gate } from '../../src/base/gate.ts';
import { ROOT, family, identityAt, serviceOf } from './listing-parts.ts';
import { rejection } from './stubs.ts';

/** A listing that has its answer from the store and has not seen it. */
async function midway(f: ReturnType<typeof family>, list: () => Promise<string[]>) {
  const hold = gate();
  f.store.answered = hold;
  const rows = list();
  await hold.arrived();
  return {
    async end() {
      f.store.answered = undefined;
      hold.open();
      return rows;
    },
  };
}

describe.each([
  ['finds what is below a session', false],
  ['only lists and reads', true],
])('a child, while a store that %s is being read,', (_, isPlain) => {
  it('is listed once when its first write comes after the reading', async () => {
    const f = family({ isPlain });
    const child = f.held('a');
    const listing = await midway(f, f.children);
    f.sessions.accept(child);
    await child.committed();
    expect(await listing.end()).toEqual(['a running continuable "a"']);
  });

  it('is listed when it is written and leaves after the reading, and so do its children', async () => {
    const f = family({ isPlain });
    const child = f.held('a');
    const below = f.held('a1', { parent: 'a' });
    const listing = await midway(f, f.descendants);
    for (const one of [below, child]) {
      f.sessions.accept(one);
      await f.sessions.leave(one);
    }
    expect(await listing.end()).toEqual([
      'a inactive continuable "a" + of root',
      '> a1 inactive continuable "a1" of a',
    ]);
  });

  it('is known to have children although those came and went after the reading', async () => {
    const f = family({ isPlain });
    await f.stored('a');
    const below = f.held('a1', { parent: 'a' });
    const listing = await midway(f, f.children);
    f.sessions.accept(below);
    await f.sessions.leave(below);
    expect(await listing.end()).toEqual(['a inactive continuable "a" +']);
  });

  it('is not listed when its start is refused: nothing of it was kept', async () => {
    const f = family({ isPlain });
    await f.stored('a');
    const refused = f.held('b');
    const below = f.held('a1', { parent: 'a' });
    const listing = await midway(f, f.children);
    await f.sessions.leave(refused);
    await f.sessions.leave(below);
    expect(await listing.end()).toEqual(['a inactive continuable "a"']);
  });

  it('is listed when it leaves while the store is asked again about another', async () => {
    const f = family({ isPlain });
    const [one, other] = [f.held('a'), f.held('b')];
    const first = await midway(f, f.children);
    f.sessions.accept(one);
    await f.sessions.leave(one);
    const again = gate();
    const { answered } = f.store;
    f.store.answered = again;
    answered?.open();
    await again.arrived();
    f.sessions.accept(other);
    await f.sessions.leave(other);
    again.open();
    expect(await first.end()).toEqual(['a inactive continuable "a"', 'b inactive continuable "b"']);
  });

  it('that leaves is inactive, and is read once it has left', async () => {
    const f = family({ isPlain });
    const child = f.live('a');
    await child.committed();
    const listing = await midway(f, f.children);
    await f.sessions.leave(child);
    expect(await listing.end()).toEqual(['a inactive continuable "a"']);
    expect(f.store.inspected).toEqual(['a']);
  });

  it('that is brought back is running', async () => {
    const f = family({ isPlain });
    await f.stored('a');
    const listing = await midway(f, f.children);
    f.sessions.enter(await f.sessions.load(SessionId('a')));
    f.store.inspected.length = 0;
    expect(await listing.end()).toEqual(['a running continuable "a"']);
    expect(f.store.inspected).toEqual([]);
  });

  it('that is removed is left out, and so it is when its log is gone by the time it is read', async () => {
    const f = family({ isPlain });
    await f.stored('a');
    await f.stored('b');
    const listing = await midway(f, f.children);
    await f.store.delete([SessionId('a')]);
    expect(await listing.end()).toEqual(['b inactive continuable "b"']);
    expect(f.store.inspected).toEqual(['a', 'b']);
  });

  it('that is replaced by another of its id is what it is now', async () => {
    const f = family({ isPlain });
    await f.stored('a', { says: { label: 'first' } });
    const listing = await midway(f, f.children);
    await f.store.delete([SessionId('a')]);
    f.live('a', { says: { label: 'second' } });
    expect(await listing.end()).toEqual(['a running continuable "second"']);
  });

  it('that is live and was never kept has the children that are stored below it', async () => {
    const f = family({ isPlain });
    f.held('a');
    await f.stored('a1', { parent: 'a' });
    await f.stored('a11', { parent: 'a1' });
    expect(await f.children()).toEqual(['a running continuable "a" +']);
    expect(await f.descendants()).toEqual([
      'a running continuable "a" + of root',
      '> a1 inactive continuable "a1" + of a',
      '> > a11 inactive continuable "a11" of a1',
    ]);
  });
});

describe('a listing of many live children', () => {
  const MANY = 1_100;

  /** How often others have had a turn until it ends; `act` is called in one of those turns. */
  async function listed(
    f: ReturnType<typeof family>,
    signal?: AbortSignal,
    at = -1,
    act = () => {},
  ) {
    const { projections, sessions } = f;
    let turns = 0;
    let isOver = false;
    const turn = (): void => {
      if (isOver) return;
      if (++turns === at) act();
      setImmediate(turn);
    };
    setImmediate(turn);
    const rows = serviceOf({ projections, sessions }).descendants(ROOT, signal);
    const outcome = await rows.finally(() => (isOver = true)).catch((error: unknown) => error);
    return { outcome, turns };
  }

  function many(): ReturnType<typeof family> {
    const f = family();
    for (let n = 0; n < MANY; n++) f.held(`s${n}`);
    return f;
  }

  it('gives others a turn at each of its stages, and is as the live ones were at first', async () => {
    const f = many();
    const { outcome: before, turns } = await listed(f);
    expect(before).toHaveLength(MANY);
    // Five while it asks who they are; one each while it places them, walks and makes rows.
    expect(turns).toBeGreaterThanOrEqual(5 + 3);
    for (let at = 1; at < turns; at += 3) {
      const { outcome } = await listed(f, undefined, at, () => {
        void f.sessions.leave(f.sessions.get(SessionId(`s${at}`))!);
        f.held(`late${at}`, { parent: 's0' });
      });
      const after = await listed(f);
      expect(outcome).toContain(`s${at} running continuable "s${at}" of root`);
      expect(outcome).not.toContain(`> late${at} running continuable "late${at}" of s0`);
      expect(after.outcome).toContain(`> late${at} running continuable "late${at}" of s0`);
    }
  });

  it('ends with a cancellation in any of those turns', async () => {
    const f = many();
    const { turns } = await listed(f);
    for (let at = 1; at < turns; at++) {
      const abort = new AbortController();
      const { outcome } = await listed(f, abort.signal, at, () => abort.abort('enough'));
      expect(outcome).toMatchObject({ code: 'CANCELLED', cause: 'enough' });
    }
  });
});

it('asks nothing about live sessions of other trees', async () => {
  const f = family();
  f.held('other', { parent: 'elsewhere' });
  const top = f.sessions.prepare({ id: SessionId('top') });
  f.sessions.enter(top);
  f.held('below', { parent: 'top' });
  f.held('mine');
  const asked: (readonly SessionId[])[] = [];
  const listBelow = f.store.listBelow.bind(f.store);
  f.store.listBelow = (roots, ...more) => {
    asked.push(roots);
    return listBelow(roots, ...more);
  };
  await f.descendants();
  await f.children();
  expect(asked).toEqual([
    // Whose parent is not live may hang below a stored one.
    ['root', 'other', 'mine'],
    ['root', 'mine'],
  ]);
});

it('fails with what the store fails with, as a whole', async () => {
  const f = family({ isPlain: true });
  f.live('a');
  f.store.listFails = new Error('The disk is gone.');
  expect(await rejection(f.children())).toBe(f.store.listFails);
  expect(await rejection(f.descendants())).toBe(f.store.listFails);
});

describe('a listing that is cancelled', () => {
  const cancelled = { name: 'SubagentError', code: 'CANCELLED', cause: 'enough' };

  it('before it begins reads nothing', async () => {
    const f = family({ isPlain: true });
    f.store.listFails = new Error('not to be read');
    const refusal = await rejection(f.children(ROOT, AbortSignal.abort('enough')));
    expect(refusal).toMatchObject(cancelled);
  });

  it('while the store is asked what there is does not wait for the answer', async () => {
    const f = family();
    const abort = new AbortController();
    const hold = gate();
    f.store.answered = hold;
    const refusal = rejection(f.descendants(ROOT, abort.signal));
    await hold.arrived();
    abort.abort('enough');
    expect(await refusal).toMatchObject(cancelled);
    hold.open();
  });

  it('as the store fails says that it was cancelled', async () => {
    const f = family({ isPlain: true });
    const abort = new AbortController();
    f.store.list = async () => {
      abort.abort('enough');
      throw new Error('The disk is gone.');
    };
    expect(await rejection(f.children(ROOT, abort.signal))).toMatchObject(cancelled);
  });

  it('as the store answers says that it was cancelled', async () => {
    const f = family();
    const abort = new AbortController();
    const listBelow = f.store.listBelow.bind(f.store);
    f.store.listBelow = async (...given) => {
      const headers = await listBelow(...given);
      abort.abort('enough');
      return headers;
    };
    expect(await rejection(f.children(ROOT, abort.signal))).toMatchObject(cancelled);
  });

  it('right behind the answer of the store says so, although nothing more was to be read', async () => {
    const f = family();
    const abort = new AbortController();
    const answer = deferred<readonly SessionHeader[]>();
    f.store.listBelow = () => answer.promise;
    const refusal = rejection(f.children(ROOT, abort.signal));
    await new Promise((resolve) => setImmediate(resolve));
    void answer.promise.then(() => abort.abort('enough'));
    answer.resolve([]);
    expect(await refusal).toMatchObject(cancelled);
  });

  it.each([
    ['and fails', true],
    ['and succeeds', false],
  ])('while checkpoints are read, which ends %s, reads no log', async (_, fails) => {
    const f = family();
    await f.stored('a', { checkpoint: identityAt(0, 'a') });
    const abort = new AbortController();
    f.store.checkpoints = async () => {
      abort.abort('enough');
      if (fails) throw new Error('no checkpoints');
      return new Map();
    };
    expect(await rejection(f.children(ROOT, abort.signal))).toMatchObject(cancelled);
    expect(f.store.inspected).toEqual([]);
  });

  it('while logs are read waits for none of them and begins no other', async () => {
    const f = family();
    for (let index = 10; index < 20; index++) await f.stored(`s${index}`);
    const abort = new AbortController();
    const hold = gate();
    f.store.read = hold;
    const refusal = rejection(f.children(ROOT, abort.signal));
    await hold.arrived(4);
    abort.abort('enough');
    expect(await refusal).toMatchObject(cancelled);
    hold.open();
    await new Promise((resolve) => setImmediate(resolve));
    expect(f.store.inspected).toHaveLength(4);
  });

  it.each([
    ['its log cannot be read', true],
    ['its log was read', false],
  ])('as %s gives no row for it', async (_, fails) => {
    const f = family();
    await f.stored('a');
    const abort = new AbortController();
    const inspect = f.store.inspect.bind(f.store);
    f.store.inspect = async (id, signal) => {
      const stored = await inspect(id, signal);
      abort.abort('enough');
      if (fails) throw new Error('cannot be read now');
      return stored;
    };
    expect(await rejection(f.children(ROOT, abort.signal))).toMatchObject(cancelled);
  });
});

describe('a listing beside the disposal of what reads for it', () => {
  it.each(['children', 'descendants'] as const)(
    'of %s is refused, also when it has begun, instead of telling of no child',
    async (what) => {
      const f = family({ hasFolds: true });
      await f.stored('a');
      await f.stored('b');
      const hold = gate();
      f.store.read = hold;
      const listed = f[what]();
      await hold.arrived();
      await f.services.coldFolds?.close();
      f.store.broken.add('a');
      hold.open();
      await expect(listed).rejects.toMatchObject({ code: 'DRAINING' });
      await expect(f[what]()).rejects.toMatchObject({ code: 'DRAINING' });
    },
  );
});
