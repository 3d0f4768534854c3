import { expect, it } from 'vitest';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { SessionId } from '../../protocol/ids.ts';
import { decodeEvent } from '../../src/session/event-codec.ts';
import type { Checkpoint, SessionPersistence } from '../../src/session/store.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { header, inStep } from './log-parts.ts';

type Store = Required<Omit<SessionPersistence, 'vacuum'>>;
interface Made extends AsyncDisposable {
  readonly store: SessionPersistence;
}

const ids = (...names: readonly string[]): SessionId[] => names.map((name) => SessionId(name));
const { events } = inStep();

/** `child: parent`, in the order in which they were made; all are of one age unless said. */
async function family(store: Store, parents: Readonly<Record<string, string | undefined>>) {
  await store.append(
    Object.entries(parents).map(([name, parent]) => {
      const more = parent === undefined ? {} : { parentSession: SessionId(parent) };
      const id = SessionId(name);
      return { id, epoch: FIRST_EPOCH, header: header(name, more), events: [] };
    }),
  );
}

/** What the stores of this package do beyond what a store must. Called inside a `describe`. */
export function listingContract(make: () => Made): void {
  const names = async (
    { store }: { readonly store: Store },
    roots: readonly string[],
    levels = Infinity,
  ): Promise<string[]> => (await store.listBelow(ids(...roots), levels)).map(({ id }) => id);
  const open = (): { readonly store: Store } & AsyncDisposable =>
    make() as { readonly store: Store } & AsyncDisposable;

  it('lists what is below a session, as deep as it is asked to, in the order of all listings', async () => {
    await using t = open();
    await family(t.store, { z: undefined, b: 'z', a: 'z', ab: 'a', aa: 'a', aaa: 'aa', other: undefined });
    await t.store.append([
      { id: SessionId('old'), epoch: FIRST_EPOCH, header: header('old', { createdAt: 0, parentSession: SessionId('aaa') }), events: [] },
    ]);
    expect(await names(t, ['z'], 0)).toEqual([]);
    expect(await names(t, ['z'], 1)).toEqual(['a', 'b']);
    expect(await names(t, ['z'], 2)).toEqual(['a', 'aa', 'ab', 'b']);
    expect(await names(t, ['z'])).toEqual(['old', 'a', 'aa', 'aaa', 'ab', 'b']);
    expect(await names(t, ['b', 'aa'])).toEqual(['old', 'aaa']);
    expect(await names(t, ['none', 'a\0'])).toEqual([]);
    expect(await names(t, [])).toEqual([]);
    const [found] = await t.store.listBelow(ids('aa'), 1);
    expect(found).toEqual(header('aaa', { parentSession: SessionId('aa') }));
  }); // prettier-ignore

  it('gives the header of one session by itself', async () => {
    await using t = open();
    await family(t.store, { a: undefined, b: 'a' });
    expect(await t.store.headerOf(SessionId('b'))).toEqual(header('b', { parentSession: SessionId('a') }));
    for (const id of ids('none', 'a\0')) {
      await expect(t.store.headerOf(id)).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
    }
    const reason = new Error('Enough.');
    await expect(t.store.headerOf(SessionId('a'), AbortSignal.abort(reason))).rejects.toBe(reason);
  }); // prettier-ignore

  it('lists what is below one that it does not hold', async () => {
    await using t = open();
    await family(t.store, { child: 'gone' });
    expect(await names(t, ['gone'])).toEqual(['child']);
  });

  it('lists each session of a circle once, and no root', async () => {
    await using t = open();
    await family(t.store, { self: 'self', a: 'c', b: 'a', c: 'b', below: 'self' });
    expect(await names(t, ['a'])).toEqual(['b', 'c']);
    expect(await names(t, ['self'])).toEqual(['below']);
    expect(await names(t, ['a', 'b'])).toEqual(['c']);
    expect(await names(t, ['a', 'c', 'a'], 1)).toEqual(['b']);
  });

  it('lists lines and forks whole, however deep it is asked to look', async () => {
    await using t = open();
    const parents: Record<string, string> = {};
    const depths = new Map([['root', 0]]);
    const add = (name: string, parent: string): string => {
      parents[name] = parent;
      depths.set(name, (depths.get(parent) ?? 0) + 1);
      return name;
    };
    const line = (name: string, parent: string, length: number): void => {
      for (let n = 0; n < length; n++) add(`${name}${n}`, n === 0 ? parent : `${name}${n - 1}`);
    };
    const fork = (name: string, parent: string, count: number): void => {
      for (let n = 0; n < count; n++) add(`${name}${n}`, parent);
    };
    line('a', 'root', 450);
    fork('b', 'a449', 8);
    line('c', 'b7', 230);
    fork('d', 'c100', 7);
    fork('e', 'c120', 9);
    fork('f', 'a210', 300);
    line('g', 'f299', 30);
    fork('h', 'g29', 60);
    for (let n = 0; n < 60; n++) line(`i${n}.`, `h${n}`, 5);
    await family(t.store, parents);
    const upTo = (levels: number): string[] =>
      Object.keys(parents)
        .filter((name) => (depths.get(name) ?? 0) <= levels)
        .sort();
    for (const levels of [1, 198, 199, 200, 201, 211, 212, 213, 246, 452, 553, 575, Infinity]) {
      expect(await names(t, ['root'], levels)).toEqual(upTo(levels));
    }
  });

  it('lists each session of a circle once that is longer than what is read at once', async () => {
    await using t = open();
    const circle = Array.from({ length: 300 }, (_, n) => [`z${n}`, `z${(n + 299) % 300}`] as const);
    await family(t.store, { ...Object.fromEntries(circle), below: 'z100' });
    const all = ['below', ...circle.map(([name]) => name)].sort();
    expect(await names(t, ['z5'])).toEqual(all.filter((name) => name !== 'z5'));
    expect(await names(t, ['z5', 'z250'])).toEqual(all.filter((name) => !['z5', 'z250'].includes(name)));
    expect(await names(t, ['z5'], 94)).toHaveLength(94);
  }); // prettier-ignore

  it('lists all of many, wide and deep', async () => {
    await using t = open();
    const parents: Record<string, string> = {};
    for (let n = 0; n < 1_205; n++) parents[`w${n}`] = n % 3 === 0 ? `w${n - 3}` : 'w0';
    for (let n = 0; n < 450; n++) for (const twin of ['x', 'y']) parents[`${twin}${n}`] = `w${n}`;
    await family(t.store, { ...parents, w0: 'root' });
    const found = await names(t, ['root']);
    expect(found).toEqual(Object.keys(parents).sort());
    await t.store.delete(ids('w0'));
    expect(await names(t, ['w0'], 1)).toHaveLength(
      Object.values(parents).filter((parent) => parent === 'w0').length,
    );
  });

  it('keeps the last checkpoint of a session, with the events it covers', async () => {
    await using t = open();
    const checkpoint = (seq: number, val: number): Checkpoint => ({ seq, rows: { key: { ver: 1, val } } });
    const [a, b, c] = ids('a', 'b', 'c') as [SessionId, SessionId, SessionId];
    await t.store.append([
      { id: a, epoch: FIRST_EPOCH, header: header('a'), events: events.slice(0, 1), checkpoint: checkpoint(0, 1) },
      { id: b, epoch: FIRST_EPOCH, header: header('b'), events: [], checkpoint: checkpoint(-1, 2) },
      { id: c, epoch: FIRST_EPOCH, header: header('c'), events },
    ]);
    const kept = async () => [...(await t.store.checkpoints(ids('a', 'b', 'c', 'none', 'a')))];
    expect(await kept()).toEqual([[a, checkpoint(0, 1)], [b, checkpoint(-1, 2)]]);
    await t.store.append([{ id: a, epoch: FIRST_EPOCH, events: events.slice(1), checkpoint: checkpoint(1, 3) }]);
    await t.store.append([{ id: a, epoch: FIRST_EPOCH, events: [], checkpoint: checkpoint(1, 4) }]);
    expect(await kept()).toEqual([[a, checkpoint(1, 4)], [b, checkpoint(-1, 2)]]);
    await t.store.delete([a]);
    await t.store.append([{ id: a, epoch: FIRST_EPOCH, header: header('a'), events }]);
    expect(await kept()).toEqual([[b, checkpoint(-1, 2)]]);
    const stop = AbortSignal.abort(new Error('enough'));
    await expect(t.store.checkpoints([b], stop)).rejects.toThrow('enough');
    await expect(t.store.listBelow([b], 1, stop)).rejects.toThrow('enough');
    await expect(t.store.inspectPacked(b, stop)).rejects.toThrow('enough');
  }); // prettier-ignore

  it.each([2, -2, 0.5, NaN])(
    'refuses a checkpoint of event %d where the last is 1, and what comes with it',
    async (seq) => {
      await using t = open();
      const id = SessionId('a');
      const entry = { id, epoch: FIRST_EPOCH, header: header('a'), events };
      const writing = t.store.append([{ ...entry, checkpoint: { seq, rows: {} } }]);
      await expect(writing).rejects.toMatchObject({ code: 'STORE_CORRUPT' });
      expect(await t.store.list()).toEqual([]);
    },
  );

  it('gives a log as it is packed', async () => {
    await using t = open();
    const [id] = ids('a') as [SessionId];
    await t.store.append([{ id, epoch: FIRST_EPOCH, header: header('a'), events }]);
    const packed = await t.store.inspectPacked(id);
    expect(packed.header).toEqual(header('a'));
    const unpacked: readonly SessionEvent[] = packed.bodies.map((body, seq) => decodeEvent(seq, body));
    expect(unpacked).toEqual(events);
    await expect(t.store.inspectPacked(SessionId('none'))).rejects.toMatchObject({
      code: 'SESSION_NOT_FOUND',
    });
  }); // prettier-ignore

  it('reads a part of a log, of at most as many events as are asked for', async () => {
    await using t = open();
    const [id] = ids('a') as [SessionId];
    await t.store.append([{ id, epoch: FIRST_EPOCH, header: header('a'), events }]);
    expect(await t.store.readFrom(id, 0, undefined, 1)).toEqual(events.slice(0, 1));
    expect(await t.store.readFrom(id, 1, undefined, 5)).toEqual(events.slice(1));
    expect(await t.store.readFrom(id, 0, undefined, 0)).toEqual([]);
  });
}
