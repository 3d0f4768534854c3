import { describe, expect, it } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import { rejection } from '../subagents/stubs.ts';
import { eventTypes } from '../support/harness.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { ID, continuing, preparing } from './continuing.ts';

describe('the preparation by a provider', () => {
  it('is of each start alone: one that is aborted does not touch another', async () => {
    await using t = await continuing();
    const hold = gate();
    const seen: AbortSignal[] = [];
    t.subagents.registerProvider(
      preparing(async ({ signal }) => {
        seen.push(signal);
        await hold.wait();
        return {};
      }),
    );
    const abort = new AbortController();
    const one = rejection(t.start({ provider: 'preparing', signal: abort.signal }));
    const other = t.start({ provider: 'preparing', childId: ID });
    await hold.arrived(2);
    abort.abort('not this one');
    expect(seen[0]).toBe(abort.signal);
    expect(await one).toBe('not this one');
    hold.open();
    await other;
    await t.gone(ID);
    expect(t.edges).toEqual(['start', 'end completed']);
    expect(await t.rows()).toHaveLength(2);
  });

  it('is refused afterwards when its parent is being drained', async () => {
    await using t = await continuing();
    const hold = gate();
    t.subagents.registerProvider(preparing(async () => (await hold.wait(), {})));
    const starting = rejection(t.start({ provider: 'preparing' }));
    await hold.arrived();
    await t.subagents.drainContinuableDescendants([t.root]);
    hold.open();
    expect(await starting).toMatchObject({ code: 'DRAINING' });
    expect(t.edges).toEqual([]);
  });

  it('is refused afterwards when its parent is another agent by then', async () => {
    await using t = await continuing();
    await t.ask('Hello.');
    const hold = gate();
    t.subagents.registerProvider(preparing(async () => (await hold.wait(), {})));
    const starting = rejection(t.start({ provider: 'preparing' }));
    await hold.arrived();
    await t.rootHandle.dispose();
    await t.agents.resume(t.root.id);
    hold.open();
    expect(await starting).toMatchObject({ code: 'DRAINING' });
    expect(t.edges).toEqual([]);
  });

  it('passes on what it fails with', async () => {
    await using t = await continuing();
    const failure = new Error('No such place.');
    t.subagents.registerProvider(preparing(() => Promise.reject(failure)));
    expect(await rejection(t.start({ provider: 'preparing' }))).toBe(failure);
  });

  const event = { type: 'turn/start', seq: 0, time: 0, data: { turn: 1 } };
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['a number', 5],
    ['a list', []],
    ['an agent', { agent: {} }],
    ['a text as a seed', { seed: 'x' }],
    ['a seed of no events', { seed: [1] }],
    ['a seed that is not JSON', { seed: [{ ...event, data: { turn: 1n } }] }],
    ['a seed that does not begin at 0', { seed: [{ ...event, seq: 3 }] }],
    ['a seed with an open turn', { seed: [event] }],
  ])('is refused when it brings %s, and leaves nothing', async (_, answer) => {
    await using t = await continuing();
    t.subagents.registerProvider(preparing(() => Promise.resolve(answer as never)));
    expect(await rejection(t.start({ provider: 'preparing' }))).toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
    expect(t.agents.list()).toEqual([t.root]);
    expect(t.edges).toEqual([]);
    expect(await t.rows()).toEqual([]);
  });

  it('brings a seed that it can change no more', async () => {
    const store = new StallingStore();
    await using t = await continuing({ store });
    await t.ask('Hello.');
    const seed = structuredClone(t.root.session.completedTurns()!) as unknown[];
    const count = seed.length;
    t.subagents.registerProvider(preparing(async () => ({ seed: seed as never })));
    // While the store is asked for the id the provider goes on with its own list.
    const readFrom = store.readFrom.bind(store);
    store.readFrom = (...args) => (seed.splice(0), readFrom(...args));
    const { childId } = await t.start({ provider: 'preparing', childId: ID });
    const { session } = t.agents.get(childId)!;
    expect(session.header.seedLength).toBe(count);
    expect(session.eventsFrom(0).slice(0, count)).toEqual(t.root.session.completedTurns());
    await t.gone(childId);
  });

  it('brings no seed with an empty list', async () => {
    await using t = await continuing();
    t.subagents.registerProvider(preparing(async () => ({ seed: [] })));
    const { childId } = await t.start({ provider: 'preparing' });
    const { session } = t.agents.get(childId)!;
    expect(session.header).not.toHaveProperty('seedLength');
    expect(session.events[0]!.type).toBe('subagent/descriptor');
    await t.gone(childId);
  });
});

describe('a continuable child of fork', () => {
  it('goes on with the turns of its parent, behind a descriptor of its own', async () => {
    await using t = await continuing();
    await t.ask('Hello.');
    const prefix = t.root.session.completedTurns()!;
    const { childId } = await t.start({ provider: 'fork' });
    const { session } = t.agents.get(childId)!;
    await t.gone(childId);
    expect(session.header.seedLength).toBe(prefix.length);
    expect(session.events.slice(0, prefix.length)).toEqual(prefix);
    expect(eventTypes({ events: session.eventsFrom(prefix.length) }).slice(0, 5)).toEqual([
      'session/end-seed',
      'subagent/descriptor',
      'session/end-seed',
      'agent/inbox/spliced',
      'turn/start',
    ]);
    const turns = session.events.flatMap((e) => (e.type === 'turn/start' ? [e.data.turn] : []));
    expect(turns).toEqual([1, 2]);
  });
});
