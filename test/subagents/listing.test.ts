import { setImmediate as nextTick } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { StoreError, WorkerError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import { gate } from '../support/gate.ts';
import { counter } from '../session/projection-parts.ts';
import { ROOT, family, headerOf, identityAt, logOf, serviceOf } from './listing-parts.ts';
import type { Said } from './listing-parts.ts';
import { rejection } from './stubs.ts';

describe.each([
  ['that finds what is below a session', false],
  ['that only lists and reads', true],
])('a listing with a store %s', (_, isPlain) => {
  it('tells of settled children who they are', async () => {
    const f = family({ isPlain });
    await f.stored('a', { says: { label: 'worker' } });
    await f.stored('b', { says: 'one-shot' });
    await f.stored('c', {
      says: { raw: { version: 1, mode: 'one-shot', provider: 'spawn', label: 'named' } },
    });
    expect(await f.subagents.listChildren(ROOT)).toEqual([
      {
        kind: 'child',
        id: 'a',
        activity: 'inactive',
        hasChildren: false,
        mode: 'continuable',
        label: 'worker',
      },
      { kind: 'child', id: 'b', activity: 'inactive', hasChildren: false, mode: 'one-shot' },
      {
        kind: 'child',
        id: 'c',
        activity: 'inactive',
        hasChildren: false,
        mode: 'one-shot',
        label: 'named',
      },
    ]);
    expect(await f.children(SessionId('nobody'))).toEqual([]);
  });

  it('orders by age, then by id, and leaves ordinary forks out', async () => {
    const f = family({ isPlain });
    for (const id of ['b', 'C', 'a', 'B']) await f.stored(id, { says: 'one-shot' });
    await f.stored('z', { says: 'one-shot', header: { createdAt: 0 } });
    await f.stored('fork', { isOrdinary: true });
    await f.stored('elsewhere', { parent: 'other' });
    const ids = (await f.subagents.listChildren(ROOT)).map(({ id }) => id);
    expect(ids).toEqual(['z', 'a', 'b', 'B', 'C']);
  });

  it('says of a child whose own children are stored that it has some, and reads none of them', async () => {
    const f = family({ isPlain });
    await f.stored('a');
    await f.stored('b');
    await f.stored('a1', { parent: 'a', says: 'none' });
    await f.stored('b1', { parent: 'b', isOrdinary: true });
    expect(await f.children()).toEqual([
      'a inactive continuable "a" +',
      'b inactive continuable "b"',
    ]);
    expect(f.store.inspected).toEqual(['a', 'b']);
  });

  it('puts each in front of its own children, and looks below ordinary and one-shot ones', async () => {
    const f = family({ isPlain });
    await f.stored('b');
    await f.stored('a', { says: 'one-shot' });
    await f.stored('a2', { parent: 'a' });
    await f.stored('a1', { parent: 'a', isOrdinary: true });
    await f.stored('a11', { parent: 'a1' });
    await f.stored('b1', { parent: 'b', says: 'one-shot' });
    f.live('b11', { parent: 'b1' });
    expect(await f.descendants()).toEqual([
      'a inactive one-shot + of root',
      '> > a11 inactive continuable "a11" of a1',
      '> a2 inactive continuable "a2" of a',
      'b inactive continuable "b" + of root',
      '> b1 inactive one-shot + of b',
      '> > b11 running continuable "b11" of b1',
    ]);
    expect(await f.descendants(SessionId('a1'))).toEqual(['a11 inactive continuable "a11" of a1']);
  });

  it('goes on below one that cannot be told, and below one that is still being made', async () => {
    const f = family({ isPlain });
    await f.stored('bad', { says: 'none' });
    await f.stored('below-bad', { parent: 'bad' });
    f.held('new', { says: 'none' });
    await f.stored('below-new', { parent: 'new' });
    expect(await f.descendants()).toEqual([
      'bad corrupt of root',
      '> below-bad inactive continuable "below-bad" of bad',
      '> below-new inactive continuable "below-new" of new',
    ]);
    expect(await f.children()).toEqual(['bad corrupt']);
  });

  it('ends where parents go in a circle, and never comes back to its root', async () => {
    const f = family({ isPlain });
    await f.stored('root', { parent: 'b' });
    await f.stored('a');
    await f.stored('b', { parent: 'a' });
    await f.stored('x', { parent: 'y' });
    await f.stored('y', { parent: 'x' });
    await f.stored('own', { parent: 'own' });
    const below = await f.subagents.listDescendants(ROOT);
    expect(below.map(({ id, depth }) => [id, depth])).toEqual([
      ['a', 1],
      ['b', 2],
    ]);
    expect((await f.subagents.listDescendants(SessionId('x'))).map(({ id }) => id)).toEqual(['y']);
    expect(await f.children(SessionId('own'))).toEqual([]);
    f.live('p', { parent: 'q' });
    f.live('q', { parent: 'p' });
    expect((await f.subagents.listDescendants(SessionId('p'))).map(({ id }) => id)).toEqual(['q']);
  });

  it('shows a child whose header nobody can read, and what is beside and below it', async () => {
    const f = family({ isPlain });
    await f.stored('b');
    await f.stored('below', { parent: 'damaged' });
    f.store.damaged = {
      id: SessionId('damaged'),
      createdAt: 0,
      parentSession: ROOT,
      error: new StoreError('STORE_CORRUPT', 'Its header cannot be read.'),
    };
    expect(await f.descendants()).toEqual([
      'damaged corrupt of root',
      '> below inactive continuable "below" of damaged',
      'b inactive continuable "b" of root',
    ]);
    expect(await f.children()).toEqual(['damaged corrupt', 'b inactive continuable "b"']);
    expect(f.store.inspected).not.toContain('damaged');
  });

  it('counts how deep the last of ten thousand generations is', async () => {
    const f = family({ isPlain });
    const entries = Array.from({ length: 10_000 }, (_, depth) => {
      const id = `s${depth + 1}`;
      const parent = depth === 0 ? ROOT : `s${depth}`;
      const events = logOf(id);
      const header = headerOf(id, { parent });
      return { id: SessionId(id), epoch: 1, header, events, checkpoint: identityAt(0, id) };
    });
    await f.store.append(entries);
    const rows = await f.subagents.listDescendants(ROOT);
    expect(rows).toHaveLength(10_000);
    expect(rows.at(-1)).toMatchObject({ id: 's10000', parentId: 's9999', depth: 10_000 });
  });
});

describe('a listing without other services', () => {
  it('has the live children when nothing is stored', async () => {
    const f = family();
    f.live('a');
    f.live('b', { says: 'one-shot' });
    f.live('b1', { parent: 'b' });
    const { children } = serviceOf({ projections: f.projections, sessions: f.sessions });
    expect(await children()).toEqual(['a running continuable "a"', 'b running one-shot +']);
  });

  it('is refused without projections, then without sessions, before anything is read', async () => {
    const f = family();
    f.store.listFails = new Error('not to be read');
    const { projections, sessions } = f;
    const persistence = f.store;
    const aborted = AbortSignal.abort();
    for (const method of ['listChildren', 'listDescendants'] as const) {
      const refusal = (listing: Parameters<typeof serviceOf>[0], signal?: AbortSignal) =>
        rejection(serviceOf(listing).subagents[method](ROOT, signal));
      expect(await refusal({ persistence }, aborted)).toMatchObject({
        name: 'SubagentError',
        code: 'SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE',
      });
      expect(await refusal({ projections, persistence }, aborted)).toMatchObject({
        code: 'SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE',
      });
      expect(await refusal({ projections, sessions, persistence }, aborted)).toMatchObject({
        code: 'CANCELLED',
      });
    }
  });

  it.each([
    ['an id that is none', 5 as never, undefined],
    ['a signal that is none', ROOT, {} as never],
  ])('is refused with %s', async (_, id, signal) => {
    const { subagents } = family();
    const refusal = await rejection(subagents.listChildren(id, signal));
    expect(refusal).toMatchObject({ code: 'INVALID_ARGUMENT' });
  });
});

describe('a live child', () => {
  it('takes the place of what is stored under its id, and is not read', async () => {
    const f = family();
    await f.stored('a', { says: 'none', header: { createdAt: 9 } });
    await f.stored('moved');
    f.held('a');
    f.held('moved', { parent: 'other' });
    expect(await f.children()).toEqual(['a running continuable "a"']);
    expect(f.store.inspected).toEqual([]);
  });

  it('is left out before it has said who it is, and again when it takes that back', async () => {
    const f = family();
    f.live('new', { says: 'none' });
    f.live('back', { says: [{ label: 'once' }, { raw: { version: 99 } }] });
    f.live('other', { says: { raw: { version: 99 } } });
    f.live('a');
    expect(await f.children()).toEqual(['a running continuable "a"']);
    for (const id of ['new', 'back', 'other']) {
      await f.sessions.leave(f.sessions.get(SessionId(id))!);
    }
    expect(await f.children()).toEqual([
      'a running continuable "a"',
      'back corrupt',
      'new corrupt',
      'other corrupt',
    ]);
  });
});

describe.each([
  ['by itself', false],
  ['by what a harness folds with', true],
])('a stored child whose log is read %s', (_, hasFolds) => {
  it('is told by its checkpoint, without its log', async () => {
    const f = family({ hasFolds });
    await f.stored('a', { says: 'none', checkpoint: { ...identityAt(3, 'kept'), seq: -1 } });
    expect(await f.children()).toEqual(['a inactive continuable "kept"']);
    expect(f.store.inspected).toEqual([]);
  });

  const none = { subagent: { ver: 2, val: null } };
  it.each([
    ['is of what it inherited', { seedLength: 1 }, identityAt(0, 'ancestor')],
    ['knows nobody', {}, { seq: 0, rows: none }],
    ['has no row of it', {}, { seq: 0, rows: {} }],
    ['has a row of another version', {}, { seq: 0, rows: { subagent: { ver: 1, val: 'x' } } }],
    ['has a row that is none', {}, { seq: 0, rows: { subagent: { ver: 2, val: 'x' } } }],
    ['is absent', {}, undefined],
  ])('is told by its log when its checkpoint %s', async (__, header, checkpoint) => {
    const f = family({ hasFolds });
    const says = [{ label: 'ancestor' }, { label: 'own' }];
    await f.stored('a', { says, header, ...(checkpoint && { checkpoint }) });
    expect(await f.children()).toEqual(['a inactive continuable "own"']);
    expect(f.store.inspected).toEqual(['a']);
  });

  it('is told by its checkpoint when that is of the first event of its own', async () => {
    const f = family({ hasFolds });
    const says = [{ label: 'ancestor' }, { label: 'own' }];
    await f.stored('a', { says, header: { seedLength: 1 }, checkpoint: identityAt(1, 'own') });
    expect(await f.children()).toEqual(['a inactive continuable "own"']);
    expect(f.store.inspected).toEqual([]);
  });

  it('is told by its log when checkpoints cannot be read, or not be viewed', async () => {
    const f = family({ hasFolds });
    await f.stored('a', { checkpoint: identityAt(0, 'kept') });
    const failing = () => {
      throw new Error('no checkpoint');
    };
    const view = { snapshot: failing, viewCheckpoint: failing, restore: f.projections.restore };
    const projections = { ...view, restore: f.projections.restore.bind(f.projections) };
    expect(await serviceOf({ ...f.services, projections }).children()).toEqual([
      'a inactive continuable "a"',
    ]);
    f.store.checkpoints = failing;
    expect(await f.children()).toEqual(['a inactive continuable "a"']);
    expect(f.store.inspected).toEqual(['a', 'a']);
  });

  it.each([
    ['version', { version: 1 as never }],
    ['id', { id: SessionId('b') }],
    ['createdAt', { createdAt: 2 }],
    ['cwd', { cwd: '/elsewhere' }],
    ['parentSession', { parentSession: SessionId('other') }],
    ['seedLength', { seedLength: 0 }],
    ['delegationDepth', { delegationDepth: 2 }],
  ])('is corrupt when its log is of a session with another %s', async (__, difference) => {
    const f = family({ hasFolds });
    await f.stored('a');
    await f.stored('sibling');
    const inspect = f.store.inspect.bind(f.store);
    f.store.inspect = async (id, signal) => {
      const { header, events } = await inspect(id, signal);
      return { header: id === 'a' ? { ...header, ...difference } : header, events };
    };
    expect(await f.children()).toEqual(['a corrupt', 'sibling inactive continuable "sibling"']);
  });

  it('is unavailable as long as its log cannot be read', async () => {
    const f = family({ hasFolds });
    await f.stored('a');
    await f.stored('b');
    f.store.broken.add('a');
    expect(await f.children()).toEqual(['a unavailable', 'b inactive continuable "b"']);
    f.store.broken.clear();
    expect(await f.children()).toEqual([
      'a inactive continuable "a"',
      'b inactive continuable "b"',
    ]);
  });

  it('is unavailable when the thread that folds it ends meanwhile', async () => {
    const f = family({ hasFolds });
    await f.stored('a');
    f.live('b');
    const closed = new WorkerError('WORKER_EXITED', 'The thread of a computation ended.');
    const coldFolds = { coldSnapshot: () => Promise.reject(closed) };
    expect(await serviceOf({ ...f.services, coldFolds }).children()).toEqual([
      'a unavailable',
      'b running continuable "b"',
    ]);
  });

  it.each<[string, Said | readonly Said[]]>([
    ['has no descriptor', 'none'],
    ['has one that is malformed', { raw: { version: 1, mode: 'one-shot' } }],
    ['has one of another version', { raw: { version: 2, mode: 'one-shot', provider: 'spawn' } }],
    ['has a malformed one behind a good one', [{ label: 'once' }, { raw: null }]],
  ])('is corrupt when its log %s', async (__, says) => {
    const f = family({ hasFolds });
    await f.stored('a', { says });
    await f.stored('b');
    expect(await f.children()).toEqual(['a corrupt', 'b inactive continuable "b"']);
  });

  it('whose own descriptor is missing is listed as the ancestor that it was forked from', async () => {
    const f = family({ hasFolds });
    await f.stored('a', { says: { label: 'ancestor' }, header: { seedLength: 1 } });
    expect(await f.children()).toEqual(['a inactive continuable "ancestor"']);
  });

  it('is the only one that another unit spoils, live and stored', async () => {
    const { apply, ...rest } = counter('strict', 'subagent/descriptor');
    const strict: typeof rest & { apply: typeof apply } = {
      ...rest,
      apply(state, event) {
        if ((event.data as { label?: string }).label === 'bad') throw new Error('not this one');
        return apply(state, event);
      },
    };
    const f = family({ hasFolds, units: [strict as never] });
    await f.stored('a', { says: { label: 'bad' } });
    await f.stored('b');
    f.live('c', { says: { label: 'bad' } });
    f.live('d');
    expect(await f.children()).toEqual([
      'a corrupt',
      'b inactive continuable "b"',
      'c corrupt',
      'd running continuable "d"',
    ]);
  });

  it('is listed alike when what it said since is in its log no more', async () => {
    const twins = [family({ hasFolds }), family({ hasFolds })];
    const more = [
      { type: 'turn/start', seq: 1, time: 1, data: { turn: 1 } },
      { type: 'turn/end', seq: 2, time: 1, data: { turn: 1, reason: { kind: 'completed' } } },
    ] as const;
    const rows: unknown[] = [];
    for (const [index, twin] of twins.entries()) {
      const header = headerOf('a');
      const events = [...logOf('a'), ...more].slice(0, index === 0 ? 3 : 1);
      await twin.store.append([{ id: header.id, epoch: 1, header, events }]);
      rows.push(await twin.descendants());
    }
    expect(rows[0]).toEqual(['a inactive continuable "a" of root']);
    expect(rows[1]).toEqual(rows[0]);
  });

  it('is read once, with at most three others at a time', async () => {
    const f = family({ hasFolds });
    for (let index = 10; index < 30; index++) await f.stored(`s${index}`);
    f.live('live');
    f.store.read = gate();
    const listing = f.descendants();
    while (f.store.inFlight < 4) await nextTick();
    for (let turn = 0; turn < 10; turn++) await nextTick();
    f.store.read.open();
    expect(await listing).toHaveLength(21);
    expect(f.store.mostInFlight).toBe(4);
    expect(f.store.inspected).toHaveLength(20);
    expect(new Set(f.store.inspected).size).toBe(20);
    expect(f.store.inspected).not.toContain('live');
  });
});
