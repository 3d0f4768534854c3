import { describe, expect, it } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { rejection } from '../subagents/stubs.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import { ID, continuing, holding } from './continuing.ts';

describe('a start that is ended', () => {
  it.each(['agent/created', 'subagent/start'] as const)(
    'by an abort inside %s leaves nothing, in the store either',
    async (event) => {
      await using t = await continuing();
      const abort = new AbortController();
      const reason = { why: 'no longer needed' };
      t.harness.on(event, () => abort.abort(reason));
      expect(await rejection(t.start({ signal: abort.signal }))).toBe(reason);
      expect(t.agents.list()).toEqual([t.root]);
      expect(t.sessions.list()).toEqual([t.root.session]);
      expect(await t.rows()).toEqual([]);
      expect(t.model.requests).toEqual([]);
      expect(t.edges).toEqual(event === 'agent/created' ? [] : ['start', 'end aborted']);
      expect(t.root.inbox.hasPending).toBe(false);
    },
  );

  it('leaves nothing of what a listener told the child either', async () => {
    await using t = await continuing();
    const abort = new AbortController();
    t.harness.on('subagent/start', ({ id }) => {
      t.agents.get(id)!.followup(createUserMessage('By the way.'));
      abort.abort('enough');
    });
    expect(await rejection(t.start({ childId: ID, signal: abort.signal }))).toBe('enough');
    await settled();
    expect(await t.rows()).toEqual([]);
    expect(t.agents.list()).toEqual([t.root]);
    expect(t.model.requests).toEqual([]);
  });

  it.each(['agent/created', 'subagent/start'] as const)(
    'by a drain inside %s is refused, and the drain waits until it is gone',
    async (event) => {
      await using t = await continuing();
      let drained: Promise<readonly string[]> | undefined;
      t.harness.on(event, () => {
        drained ??= t.subagents
          .drainContinuableDescendants([t.root])
          .then(() => t.agents.list().map(({ id }) => id));
      });
      expect(await rejection(t.start())).toMatchObject({ code: 'DRAINING' });
      expect(await drained).toEqual([t.root.id]);
      expect(await t.rows()).toEqual([]);
      expect(t.edges).toEqual(event === 'agent/created' ? [] : ['start', 'end aborted']);
    },
  );

  it('by the disposal of its parent inside subagent/start is refused', async () => {
    await using t = await continuing();
    let disposed: Promise<void> | undefined;
    t.harness.on('subagent/start', () => void (disposed ??= t.rootHandle.dispose()));
    expect(await rejection(t.start())).toMatchObject({ code: 'DRAINING' });
    await disposed;
    expect(t.agents.list()).toEqual([]);
    expect(await t.rows()).toEqual([]);
  });

  it('by an abort while its thread starts is told the reason, and the thread is gone', async () => {
    const hold = gate();
    await using t = await continuing({
      models: { module: { module: new URL('file:///held.mjs') } },
      threads: {
        import: async () => (await hold.wait(), { default: scriptedModel(['Done.']) }),
      },
    });
    const abort = new AbortController();
    const starting = t.start({
      signal: abort.signal,
      request: { agentOptions: { provider: 'module' } },
    });
    await hold.arrived();
    abort.abort('changed my mind');
    expect(await rejection(starting)).toBe('changed my mind');
    await t.threads.all.at(-1)!.ended;
    hold.open();
    expect(t.agents.list()).toEqual([t.root]);
    expect(await t.rows()).toEqual([]);
  });

  it('by a drain while its thread starts is refused, and the thread is gone first', async () => {
    const hold = gate();
    await using t = await continuing({
      models: { module: { module: new URL('file:///held.mjs') } },
      threads: {
        import: async () => (await hold.wait(), { default: scriptedModel(['Done.']) }),
      },
    });
    const starting = rejection(t.start({ request: { agentOptions: { provider: 'module' } } }));
    await hold.arrived();
    let isGone = false;
    void t.threads.all.at(-1)!.ended.then(() => (isGone = true));
    await t.subagents.drainContinuableDescendants([t.root]);
    expect(isGone).toBe(true);
    expect(await starting).toMatchObject({ code: 'DRAINING' });
    hold.open();
  });

  it('by an abort after the acceptance is not', async () => {
    const hold = gate();
    const abort = new AbortController();
    await using t = await continuing({ script: holding({ 'Work.': hold }) });
    const { childId } = await t.start({ signal: abort.signal });
    abort.abort();
    await hold.arrived();
    hold.open();
    await t.gone(childId);
    expect(t.edges).toEqual(['start', 'end completed']);
  });

  it('by an abort after the message went in, before it is kept, is not', async () => {
    const store = new StallingStore();
    const abort = new AbortController();
    await using t = await continuing({ store });
    const stall = store.stall();
    const starting = t.start({ childId: ID, signal: abort.signal });
    await until(() => t.agents.get(ID)?.inbox.hasPending === true);
    abort.abort();
    store.hold = undefined;
    stall.open();
    expect(await starting).toMatchObject({ childId: ID });
    await t.gone(ID);
    expect(t.edges).toEqual(['start', 'end completed']);
  });
});

describe('a task that has to be kept', () => {
  it('returns its ids when it is kept, and runs nothing before', async () => {
    const store = new StallingStore();
    await using t = await continuing({ store });
    const stall = store.stall();
    let isReturned = false;
    const starting = t.start({ childId: ID }).then(() => (isReturned = true));
    await until(() => t.agents.get(ID)?.inbox.hasPending === true);
    await settled();
    expect(isReturned).toBe(false);
    expect(t.model.requests).toEqual([]);
    store.hold = undefined;
    stall.open();
    await starting;
    await t.gone(ID);
  });

  it('leaves nothing when it cannot be, once the start rejects', async () => {
    const store = new StallingStore();
    await using t = await continuing({ store });
    store.failure = new StoreError('STORE_IO', 'The disk is gone.');
    const ends: boolean[] = [];
    t.harness.on('subagent/end', ({ id }) => ends.push(t.agents.get(id) === undefined));
    expect(await rejection(t.start({ childId: ID }))).toBe(store.failure);
    // All of it is over by then.
    expect(t.edges).toEqual(['start', 'end aborted']);
    expect(ends).toEqual([true]);
    expect(t.agents.list()).toEqual([t.root]);
    expect(t.sessions.list()).toEqual([t.root.session]);
    expect(t.root.inbox.hasPending).toBe(false);
    store.failure = undefined;
    await settled();
    expect(await t.rows()).toEqual([]);
    expect(t.model.requests).toEqual([]);
    await t.start({ childId: ID });
    await t.gone(ID);
    expect(t.edges).toEqual(['start', 'end aborted', 'start', 'end completed']);
  });

  it('takes with it what else was told before it was decided', async () => {
    const store = new StallingStore();
    await using t = await continuing({ store });
    const stall = store.stall();
    const starting = rejection(t.start({ childId: ID }));
    await until(() => t.agents.get(ID)?.inbox.hasPending === true);
    const following = rejection(t.tell(ID, 'More.'));
    await until(() => t.agents.get(ID)?.inbox.nextTurn.length === 2);
    const late: Promise<unknown>[] = [];
    t.harness.on('agent/inbox/discarded', () => late.push(rejection(t.tell(ID, 'Late.'))));
    store.failure = new StoreError('STORE_IO', 'The disk is gone.');
    stall.open();
    expect(await starting).toBe(store.failure);
    expect(await following).toBe(store.failure);
    store.failure = undefined;
    // Told in the very tick in which it failed: refused, one way or the other.
    for (const one of await Promise.all(late)) expect(one).toHaveProperty('code');
    await settled();
    expect(late.length).toBeGreaterThan(0);
    expect(await t.rows()).toEqual([]);
    expect(t.agents.list()).toEqual([t.root]);
  });
});
