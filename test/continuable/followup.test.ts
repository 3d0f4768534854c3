import { describe, expect, it, vi } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { Activations } from '../../src/subagents/activations.ts';
import { Admission } from '../../src/subagents/admission.ts';
import { startContinuable } from '../../src/subagents/continuable.ts';
import { followup } from '../../src/subagents/followup.ts';
import { Places } from '../../src/subagents/places.ts';
import { SubagentLifecycle } from '../../src/subagents/lifecycle.ts';
import { ProviderRegistry } from '../../src/subagents/registry.ts';
import { Setups } from '../../src/subagents/setup.ts';
import { recordingLogger, rejection, text } from '../subagents/stubs.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import { ends } from '../worker-host/agent-words.ts';
import { continuing, holding, specOf, told, USER } from './continuing.ts';

describe('a follow-up to a resident child', () => {
  it('is a later turn of its own, in the order of acceptance', async () => {
    const hold = gate();
    await using t = await continuing({ script: holding({ 'Work.': hold }) });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    await hold.arrived();
    const [one, two] = await Promise.all([t.tell(childId, 'One.'), t.tell(childId, 'Two.')]);
    expect(one.messageId).not.toBe(two.messageId);
    expect(child.inbox.nextTurn.map(({ id }) => id)).toEqual([one.messageId, two.messageId]);
    expect(t.agents.get(childId)).toBe(child);
    hold.open();
    await t.gone(childId);
    expect(told(child)).toEqual(['Work.', 'One.', 'Two.']);
    expect(ends(child.session)).toEqual(['completed', 'completed', 'completed']);
    expect(t.edges).toEqual(['start', 'end completed']);
  });

  it('has the source that it was given, and no authority by it', async () => {
    const hold = gate();
    await using t = await continuing({ script: holding({ 'Work.': hold }) });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    const source = { kind: 'coordinator', form: 'relay', senderSessionId: t.root.id } as const;
    await t.tell(childId, 'More.', { source });
    expect(child.inbox.nextTurn.at(-1)!.source).toEqual(source);
    const { agent: other } = await t.agents.create();
    expect(await rejection(t.tell(childId, 'More.', { parent: other, source }))).toMatchObject({
      code: 'UNAUTHORIZED',
    });
    expect(child.inbox.nextTurn.filter(({ content }) => content.length > 0)).toHaveLength(1);
    hold.open();
    await t.gone(childId);
  });

  it('wakes one that waits for a child of its own', async () => {
    const hold = gate();
    await using t = await continuing({ script: holding({ 'Dig.': hold }) });
    let grandchild: Promise<{ childId: SessionId }> | undefined;
    t.harness.on('agent/inbox/claimed', ({ agent }) => {
      if (agent === t.root) return;
      grandchild ??= t.start({ request: { parent: agent, prompt: [text('Dig.')] } });
    });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    await hold.arrived();
    await child.whenIdle();
    await settled();
    expect(t.agents.get(childId)).toBe(child);
    await t.tell(childId, 'More.');
    await until(() => told(child).includes('More.'));
    await child.whenIdle();
    expect(t.agents.get(childId)).toBe(child);
    hold.open();
    await t.gone(childId);
    expect(told(child)).toEqual([
      'Work.',
      'More.',
      expect.stringContaining((await grandchild!).childId),
    ]);
    expect(ends(child.session)).toEqual(['completed', 'completed', 'completed']);
  });

  it('is refused to a former object of the parent, or to none', async () => {
    const hold = gate();
    await using t = await continuing({ script: holding({ 'Work.': hold }) });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    const double = Object.create(t.root) as Agent;
    for (const parent of [double, t.rootHandle, undefined, 5] as Agent[]) {
      const telling = t.subagents.followup(parent, childId, 'More.', {
        source: USER,
        signal: new AbortController().signal,
      });
      const error = (await rejection(telling)) as Error;
      expect(error).toMatchObject({ code: 'UNAUTHORIZED' });
      expect(error.message).not.toContain('children');
      if (parent === double) continue;
      expect(error.message).toContain('Only an agent tells a child anything, and this is none');
      expect(error.message.includes('handle.agent')).toBe((parent as unknown) === t.rootHandle);
    }
    await hold.arrived();
    expect(child.inbox.hasPending).toBe(false);
    hold.open();
    await t.gone(childId);
  });

  it.each([
    ['no text', [5 as never, 'More.', { source: USER }]],
    ['no options', [SessionId('x'), 'More.', undefined]],
    ['no source', [SessionId('x'), 'More.', {}]],
    ['no signal', [SessionId('x'), 'More.', { source: USER }]],
    ['another option', [SessionId('x'), 'More.', { source: USER, urgent: true }]],
    [
      'nothing to say',
      [SessionId('x'), [], { source: USER, signal: new AbortController().signal }],
    ],
  ])('is refused with %s', async (_, [childId, content, options]) => {
    await using t = await continuing();
    const telling = t.subagents.followup(
      t.root,
      childId as SessionId,
      content as string,
      options as never,
    );
    expect(await rejection(telling)).toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  it('never comes when it is aborted before it is accepted', async () => {
    const hold = gate();
    await using t = await continuing({ script: holding({ 'Work.': hold }) });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    const signal = AbortSignal.abort('no');
    expect(await rejection(t.tell(childId, 'More.', { signal }))).toBe('no');
    const abort = new AbortController();
    // In the tick of the call, and so before the lock is entered.
    const telling = rejection(t.tell(childId, 'More.', { signal: abort.signal }));
    abort.abort('not now');
    expect(await telling).toBe('not now');
    hold.open();
    await t.gone(childId);
    expect(told(child)).toEqual(['Work.']);
  });

  it('runs whatever is aborted once it is accepted', async () => {
    const hold = gate();
    await using t = await continuing({ script: holding({ 'Work.': hold }) });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    const abort = new AbortController();
    await t.tell(childId, 'More.', { signal: abort.signal });
    abort.abort();
    hold.open();
    await t.gone(childId);
    expect(told(child)).toEqual(['Work.', 'More.']);
  });

  it('that the agent refuses is told as it is, and holds nobody up', async () => {
    const hold = gate();
    await using t = await continuing({ script: holding({ 'Work.': hold }) });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    const failure = new Error('Refused.');
    vi.spyOn(child, 'followup').mockImplementationOnce(() => {
      throw failure;
    });
    expect(await rejection(t.tell(childId, 'More.'))).toBe(failure);
    // One that failed does not stand in the way of the next.
    await t.tell(childId, 'Again.');
    hold.open();
    await t.gone(childId);
    expect(told(child)).toEqual(['Work.', 'Again.']);
    expect(t.edges).toEqual(['start', 'end completed']);
  });

  it('that cannot be kept is withdrawn, and the child goes on', async () => {
    const hold = gate();
    const store = new StallingStore();
    await using t = await continuing({ store, script: holding({ 'Work.': hold }) });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    await hold.arrived();
    store.failure = new StoreError('STORE_IO', 'The disk is gone.');
    expect(await rejection(t.tell(childId, 'More.'))).toBe(store.failure);
    store.failure = undefined;
    expect(child.inbox.hasPending).toBe(false);
    expect(t.agents.get(childId)).toBe(child);
    hold.open();
    await t.gone(childId);
    expect(told(child)).toEqual(['Work.']);
  });

  it('is told as withdrawn also when the write of it failed in the very tick', async () => {
    const hold = gate();
    const store = new StallingStore();
    await using t = await continuing({ store, script: holding({ 'Work.': hold }) });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    await hold.arrived();
    const failure = new StoreError('STORE_IO', 'The disk is gone.');
    // Written at once, and the disk is back by the next write.
    t.harness.on('agent/inbox/inserted', ({ agent }) => {
      if (agent !== child) return;
      store.failure = failure;
      void t.sessions.flush(child.session).catch(() => (store.failure = undefined));
    });
    expect(await rejection(t.tell(childId, 'More.'))).toBe(failure);
    hold.open();
    await t.gone(childId);
    expect(told(child)).toEqual(['Work.']);
  });

  it('needs no store of its own while the child is resident, and one when it is not', async () => {
    const hold = gate();
    await using t = await continuing({ script: holding({ 'Work.': hold }) });
    const { agents } = t.harness;
    const logger = recordingLogger();
    const services = {
      agents,
      sessions: t.sessions as typeof t.sessions | undefined,
      admission: new Admission(agents),
      lifecycle: new SubagentLifecycle(logger),
      logger,
    };
    const providers = new ProviderRegistry(logger);
    providers.register(t.subagents.getProvider('spawn')!);
    const activations = new Activations(services);
    const places = new Places({ agents, maxLive: undefined, maxTotal: undefined });
    const context = { activations, providers, setups: new Setups(), maxDepth: undefined, places };
    const { childId } = await startContinuable(context, specOf(t.root));
    const child = agents.get(childId)!;
    const options = { source: USER, signal: new AbortController().signal };
    await hold.arrived();
    services.sessions = undefined;
    await followup(context, t.root, childId, 'More.', options);
    hold.open();
    await until(() => activations.get(childId) === undefined);
    expect(told(child)).toEqual(['Work.', 'More.']);
    expect(await rejection(followup(context, t.root, childId, 'Late.', options))).toMatchObject({
      code: 'PERSISTENCE_UNAVAILABLE',
    });
    await t.root.whenIdle();
  });
});

describe('a follow-up at the end of a residency', () => {
  it.each([0, 1, 2, 4, 8, 16, 32])(
    'is accepted when it comes %s microtasks after the child became idle',
    async (count) => {
      await using t = await continuing();
      const { childId } = await t.start();
      const child = t.agents.get(childId)!;
      const telling = new Promise<unknown>((resolve) => {
        let isFirst = true;
        t.harness.on(
          'agent/status',
          ({ status }) => {
            if (status !== 'idle' || !isFirst) return;
            isFirst = false;
            const tell = (left: number): void => {
              if (left === 0) resolve(t.tell(childId, 'More.'));
              else queueMicrotask(() => tell(left - 1));
            };
            tell(count);
          },
          { agent: child },
        );
      });
      await telling;
      await t.gone(childId);
      const { events } = await t.sessions.inspect(childId);
      const said = events.flatMap((e) => (e.type === 'user/message' ? e.data.content : []));
      expect(said).toEqual(expect.arrayContaining([text('Work.'), text('More.')]) as typeof said);
      expect(said.filter((block) => block.type === 'text' && block.text === 'More.')).toHaveLength(
        1,
      );
    },
  );

  it('waits for the release, and brings the child back', async () => {
    const store = new StallingStore();
    await using t = await continuing({ store });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    await until(() => child.session.events.some(({ type }) => type === 'assistant/message'));
    const stall = store.stall();
    // Its end is decided, and its last events are being written.
    await child.whenIdle();
    await settled();
    expect(t.agents.get(childId)).toBe(child);
    let isTold = false;
    const telling = t.tell(childId, 'More.').then(() => (isTold = true));
    await settled();
    expect(isTold).toBe(false);
    store.hold = undefined;
    stall.open();
    await telling;
    expect(t.agents.get(childId)).not.toBe(child);
    await t.gone(childId);
    expect(t.edges).toEqual(['start', 'end completed', 'start', 'end completed']);
  });

  it('looks at its signal and at its parent anew after that wait', async () => {
    const store = new StallingStore();
    // Its store has all the time.
    await using t = await continuing({ store, clock: new ManualClock() });
    const { childId } = await t.start();
    const child = t.agents.get(childId)!;
    await until(() => child.session.events.some(({ type }) => type === 'assistant/message'));
    const stall = store.stall();
    await child.whenIdle();
    await settled();
    const abort = new AbortController();
    const one = rejection(t.tell(childId, 'One.', { signal: abort.signal }));
    const two = rejection(t.tell(childId, 'Two.'));
    await settled();
    abort.abort('no longer');
    // Not held up by the release.
    expect(await one).toBe('no longer');
    const drained = t.subagents.drainContinuableDescendants([t.root]);
    store.hold = undefined;
    stall.open();
    expect(await two).toMatchObject({ code: 'DRAINING' });
    await drained;
    const { events } = await t.sessions.inspect(childId);
    expect(JSON.stringify(events)).not.toMatch(/One\.|Two\./);
  });
});
