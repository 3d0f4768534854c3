import { describe, expect, it, vi } from 'vitest';
import { StoreError, SubagentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { gate } from '../../src/base/gate.ts';
import type { StoredSession } from '../../src/session/store.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { foldSubagentDescriptor } from '../../src/subagents/descriptor.ts';
import { rejection, text } from '../subagents/stubs.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { until } from '../support/until.ts';
import { continuing, holding, told, withQueue } from './continuing.ts';

/** A store whose readings wait when a test says so, and show what signal they were given. */
class SlowStore extends StallingStore {
  reading = gate();
  isSlow = false;
  signal: AbortSignal | undefined;

  override async inspect(id: SessionId, signal?: AbortSignal): Promise<StoredSession> {
    if (this.isSlow) {
      this.signal = signal;
      await this.reading.wait();
    }
    return super.inspect(id, signal);
  }
}

const typesOf = (events: readonly SessionEvent[], type: string): number =>
  events.filter((event) => event.type === type).length;

/** A harness with a child that has done its first task and is gone. */
async function withSettled(options: Parameters<typeof continuing>[0] = {}) {
  const t = await continuing(options);
  const { childId } = await t.start();
  await t.gone(childId);
  return { ...t, childId, [Symbol.asyncDispose]: () => t[Symbol.asyncDispose]() };
}

describe('a settled child that is told more', () => {
  it('goes on in its own log, with one descriptor', async () => {
    await using t = await withSettled();
    const before = (await t.sessions.inspect(t.childId)).events;
    await t.tell(t.childId, 'More.');
    const child = t.agents.get(t.childId)!;
    await t.gone(t.childId);
    expect(told(child)).toEqual(['Work.', 'More.']);
    const { events } = child.session;
    expect(events.slice(0, before.length)).toEqual(before);
    expect(typesOf(events, 'subagent/descriptor')).toBe(1);
    expect(t.edges).toEqual(['start', 'end completed', 'start', 'end completed']);
  });

  it('needs its provider no more, and is told under its name', async () => {
    await using t = await continuing();
    const provider = { ...t.subagents.getProvider('spawn')!, name: 'passing' };
    const remove = t.subagents.registerProvider(provider);
    const runs: (readonly [string, string, string])[] = [];
    t.harness.on('subagent/start', (info) => runs.push(['start', info.provider, info.runId]));
    t.harness.on('subagent/end', (info) => runs.push(['end', info.provider, info.runId]));
    const { childId } = await t.start({ provider: 'passing' });
    remove();
    await t.gone(childId);
    await t.tell(childId, 'More.');
    await t.gone(childId);
    expect(runs.map(([edge, name]) => `${edge} ${name}`)).toEqual([
      'start passing',
      'end passing',
      'start passing',
      'end passing',
    ]);
    const [one, two, three, four] = runs.map(([, , runId]) => runId);
    expect([one, three]).toEqual([two, four]);
    expect(one).not.toBe(three);
  });

  it('is what it was made as: persona, tools, depth, and exactly its route', async () => {
    await using t = await continuing({
      tools: [{ name: 'look', description: '', parameters: { type: 'object' }, execute: () => '' }],
      models: { other: scriptedModel(() => 'Other.') },
    });
    const { childId } = await t.start({
      request: {
        persona: 'A reader.',
        toolFilter: { deny: ['look'] },
        agentOptions: { provider: 'other', model: 'm', maxTokens: 9 },
      },
    });
    await t.gone(childId);
    await t.tell(childId, 'More.');
    const child = t.agents.get(childId)!;
    expect(child.options).toEqual({ provider: 'other', model: 'm', maxTokens: 9 });
    expect(child.session.header.delegationDepth).toBe(1);
    await t.gone(childId);
    const headers = child.session.events.flatMap((event) =>
      event.type === 'request/header' ? [event.data.header] : [],
    );
    for (const header of headers) expect(JSON.stringify(header)).not.toContain('look');
    expect(JSON.stringify(child.session.lastHeader())).toContain('A reader.');
  });

  it('without a route gets none', async () => {
    await using t = await continuing();
    const { agent } = await t.agents.create({ agentOptions: {} });
    const { childId } = await t.start({ request: { parent: agent } });
    await t.gone(childId);
    await agent.whenIdle();
    await t.tell(childId, 'More.', { parent: agent });
    expect(t.agents.get(childId)!.options).toEqual({});
    await t.gone(childId);
  });

  it('that is a fork of a continuable child reads its own descriptor', async () => {
    await using t = await continuing();
    let inner: Promise<{ childId: SessionId }> | undefined;
    const { childId } = await t.start({ label: 'outer' });
    const outer = t.agents.get(childId)!;
    t.harness.on('agent/inbox/claimed', ({ agent, turn }) => {
      if (agent !== outer || turn !== 2) return;
      inner = t.start({ provider: 'fork', label: 'inner', request: { parent: agent } });
    });
    await t.tell(childId, 'Delegate.');
    await until(() => inner !== undefined);
    const { childId: innerId } = await inner!;
    const header = t.agents.get(innerId)!.session.header;
    await t.gone(childId);
    const stored = await t.sessions.inspect(innerId);
    expect(foldSubagentDescriptor(stored.events)).toMatchObject({ label: 'outer' });
    // Its parent is brought back to tell it more.
    const hold = gate();
    const starts: string[] = [];
    t.harness.on('subagent/start', ({ id, provider }) => starts.push(`${provider} ${id}`));
    let telling: Promise<unknown> | undefined;
    t.harness.on('agent/inbox/claimed', ({ agent }) => {
      if (agent.id === childId) telling ??= t.tell(innerId, 'More.', { parent: agent });
    });
    await t.tell(childId, 'Again.');
    await until(() => telling !== undefined);
    await telling;
    expect(t.agents.get(innerId)!.session.header).toEqual(header);
    hold.open();
    await t.gone(childId);
    expect(starts).toEqual([`spawn ${childId}`, `fork ${innerId}`]);
  });
});

describe('a follow-up that brings nobody back', () => {
  it('is refused to another agent, also for what could not be brought back', async () => {
    await using t = await withSettled();
    const { agent: other } = await t.agents.create();
    const one = await t.subagents.start('spawn', {
      parent: t.root,
      prompt: [text('Once.')],
      signal: new AbortController().signal,
    });
    await one.result;
    await one.dispose();
    for (const id of [t.childId, one.id]) {
      expect(await rejection(t.tell(id, 'More.', { parent: other }))).toMatchObject({
        code: 'UNAUTHORIZED',
      });
    }
    expect(t.agents.get(t.childId)).toBeUndefined();
  });

  it('says of a one-shot child that the id is not to be tried again', async () => {
    await using t = await continuing();
    const one = await t.subagents.start('spawn', {
      parent: t.root,
      prompt: [text('Once.')],
      signal: new AbortController().signal,
    });
    await one.result;
    await one.dispose();
    expect(await rejection(t.tell(one.id, 'More.'))).toMatchObject({
      name: 'SubagentError',
      code: 'NOT_RESUMABLE',
      message: expect.stringContaining('Do not try this id again.') as string,
    });
  });

  it('says of an id that nobody knows that it is not in this store', async () => {
    await using t = await continuing();
    expect(await rejection(t.tell(SessionId('nobody'), 'More.'))).toMatchObject({
      code: 'NOT_RESUMABLE',
      message: expect.stringMatching(/the store holds no session of that id.*:memory:/) as string,
      cause: expect.objectContaining({ code: 'SESSION_NOT_FOUND' }) as unknown,
    });
  });

  it('says of a live one-shot child what it is', async () => {
    const hold = gate();
    await using t = await continuing({ script: holding({ 'Once.': hold }) });
    const run = await t.subagents.start('spawn', {
      parent: t.root,
      prompt: 'Once.',
      signal: new AbortController().signal,
    });
    const refused = expect.objectContaining({
      code: 'NOT_RESUMABLE',
      message: expect.stringContaining('it is a one-shot child') as string,
    }) as unknown;
    // Before its first turn, too, when its log says nothing of it.
    expect(await rejection(t.tell(run.id, 'More.'))).toEqual(refused);
    await hold.arrived();
    expect(await rejection(t.tell(run.id, 'More.'))).toEqual(refused);
    hold.open();
    await run.dispose();
  });

  it.each([
    ['none', undefined, /nothing says/],
    ['of another version', { version: 2, mode: 'continuable' }, /nothing says/],
    ['that is damaged', { version: 1, mode: 'continuable', provider: 'spawn' }, /damaged/],
  ])('says so of a child with a descriptor %s', async (_, descriptor, message) => {
    await using t = await continuing();
    const id = SessionId('odd');
    const header = {
      version: 0,
      id,
      createdAt: 1,
      parentSession: t.root.id,
      origin: 'subagent',
      delegationDepth: 1,
    } as const;
    const events =
      descriptor === undefined
        ? []
        : [{ type: 'subagent/descriptor', seq: 0, time: 1, data: descriptor } as SessionEvent];
    await t.harness.sessionPersistence.append([{ id, epoch: 1, header, events }]);
    await t.harness.sessionPersistence.release([id]);
    const error = await rejection(t.tell(id, 'More.'));
    expect(error).toMatchObject({
      code: 'NOT_RESUMABLE',
      message: expect.stringMatching(message) as string,
    });
    expect((error as Error).message).toContain('Do not try this id again.');
    if (descriptor?.version === 1) expect(error).toHaveProperty('cause.code', 'INVALID_ARGUMENT');
    expect(t.agents.list()).toEqual([t.root]);
  });

  it('does not give up an id that a failing store could not read', async () => {
    const store = new SlowStore();
    await using t = await withSettled({ store });
    const failure = new StoreError('STORE_IO', 'The disk is gone.');
    vi.spyOn(store, 'inspect').mockRejectedValueOnce(failure);
    const error = await rejection(t.tell(t.childId, 'More.'));
    expect(error).toMatchObject({ code: 'NOT_RESUMABLE', cause: failure });
    expect((error as Error).message).toContain(failure.message.replace(/\.$/, ''));
    expect((error as Error).message).not.toContain('Do not try');
    await t.tell(t.childId, 'More.');
    await t.gone(t.childId);
  });

  it('is ended by an abort while the store reads, with the very reason', async () => {
    const store = new SlowStore();
    await using t = await withSettled({ store });
    store.isSlow = true;
    const abort = new AbortController();
    const telling = rejection(t.tell(t.childId, 'More.', { signal: abort.signal }));
    await store.reading.arrived();
    expect(store.signal).toBe(abort.signal);
    const reason = { why: 'no longer needed' };
    abort.abort(reason);
    expect(await telling).toBe(reason);
    // Nobody behind it has to wait for that reading.
    store.isSlow = false;
    await t.tell(t.childId, 'Again.');
    store.reading.open();
    await t.gone(t.childId);
  });

  it('passes on a typed failure as it is', async () => {
    await using t = await withSettled();
    const failure = new SubagentError('CAPACITY', 'No room.');
    t.subagents.registerContinuableSetup(() => {
      throw failure;
    });
    expect(await rejection(t.tell(t.childId, 'More.'))).toBe(failure);
    expect(t.agents.list()).toEqual([t.root]);
  });

  it('leaves an agent alone that is live under that id and no continuable child', async () => {
    await using t = await withSettled();
    const handle = await t.agents.resume(t.childId);
    expect(await rejection(t.tell(t.childId, 'More.'))).toMatchObject({
      name: 'SubagentError',
      message: expect.stringContaining('it was opened by itself') as string,
    });
    expect(t.agents.get(t.childId)).toBe(handle.agent);
    expect(handle.agent.inbox.hasPending).toBe(false);
    await handle.dispose();
    await t.tell(t.childId, 'More.');
    await t.gone(t.childId);
  });

  it('is refused when its parent is another agent of that id by then', async () => {
    const store = new SlowStore();
    await using t = await withSettled({ store });
    store.isSlow = true;
    const telling = rejection(t.tell(t.childId, 'More.'));
    await store.reading.arrived();
    await t.rootHandle.dispose();
    store.isSlow = false;
    const { agent } = await t.agents.resume(t.root.id);
    store.reading.open();
    expect(await telling).toMatchObject({ code: 'DRAINING' });
    expect(t.agents.list()).toEqual([agent]);
    expect(JSON.stringify(await t.sessions.inspect(t.childId))).not.toContain('More.');
    // The one that lives now may.
    await t.tell(t.childId, 'More.', { parent: agent });
    await agent.whenIdle();
    await t.gone(t.childId);
  });

  it.each(['subagent/start', 'agent/created'] as const)(
    'is refused when its parent ends inside %s, and what waited waits on',
    async (event) => {
      await using t = await withQueue();
      const before = (await t.sessions.inspect(t.childId)).events.length;
      let disposed: Promise<void> | undefined;
      t.harness.on(event, () => void (disposed ??= t.rootHandle.dispose()));
      expect(await rejection(t.tell(t.childId, 'More.'))).toMatchObject({ code: 'DRAINING' });
      await disposed;
      expect(t.agents.list()).toEqual([]);
      const stored = await t.sessions.inspect(t.childId);
      expect(JSON.stringify(stored.events.slice(before))).not.toContain('More.');
    },
  );

  it.each(['subagent/start', 'agent/created'] as const)(
    'keeps what waited when it is aborted inside %s',
    async (event) => {
      await using t = await withQueue();
      const abort = new AbortController();
      const off = t.harness.on(event, () => abort.abort('enough'));
      const telling = t.tell(t.childId, 'More.', { signal: abort.signal });
      expect(await rejection(telling)).toBe('enough');
      off();
      expect(t.agents.list()).toEqual([t.root]);
      await t.tell(t.childId, 'Last.');
      const child = t.agents.get(t.childId)!;
      await t.gone(t.childId);
      expect(told(child)).toEqual(['Fail.', 'One.', 'Two.', 'Last.']);
    },
  );
});
