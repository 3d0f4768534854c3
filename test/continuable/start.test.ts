import { afterEach, describe, expect, it, vi } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { SubagentLifecycle } from '../../src/subagents/lifecycle.ts';
import type { SubagentProvider } from '../../src/subagents/provider.ts';
import { SubagentRuntime } from '../../src/subagents/runtime.ts';
import { ALL_CAPABILITIES, recordingLogger, rejection, stubProvider } from '../subagents/stubs.ts';
import { eventTypes } from '../support/harness.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { settled, until } from '../support/until.ts';
import { continuing, holding, told } from './continuing.ts';

const ID = SessionId('reserved');

/** A provider that answers a preparation as the test says. */
const preparing = (
  prepareContinuable: NonNullable<SubagentProvider['prepareContinuable']>,
): SubagentProvider => ({
  name: 'preparing',
  capabilities: ALL_CAPABILITIES,
  inheritsParentContext: false,
  start: () => Promise.reject(new Error('No one-shot child was asked for.')),
  prepareContinuable,
});

const ioError = (): StoreError => new StoreError('STORE_IO', 'The disk is gone.');

afterEach(() => void vi.restoreAllMocks());

describe('the start of a continuable child', () => {
  it('resolves when the task is accepted, before anything of it has run', async () => {
    await using t = await continuing();
    const inserted: UserMessage[] = [];
    t.harness.on('agent/inbox/inserted', ({ message }) => inserted.push(message));
    const { childId, messageId } = await t.start();
    expect(childId).toMatch(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/);
    expect(inserted.map(({ id }) => id)).toEqual([messageId]);
    const child = t.agents.get(childId)!;
    expect(eventTypes(child.session)).not.toContain('user/message');
    expect(t.model.requests).toEqual([]);
    // Accepted is kept: what is in the store now, a crash would leave.
    const { events } = await t.harness.sessionPersistence.inspect(childId);
    expect(JSON.stringify(events)).toContain(messageId);
    await t.gone(childId);
    expect(told(child)).toEqual(['Work.']);
  });

  it('keeps header, descriptor and task as one transaction', async () => {
    const store = new StallingStore();
    const writes: string[][] = [];
    const append = store.append.bind(store);
    store.append = (batch) => {
      for (const { id, events } of batch) if (id === ID) writes.push(events.map((e) => e.type));
      return append(batch);
    };
    await using t = await continuing({ store });
    await t.start({ childId: ID });
    expect(writes[0]).toEqual(['subagent/descriptor', 'session/end-seed', 'agent/inbox/spliced']);
    await t.gone(ID);
  });

  it('takes an id once: not while it is live, nor after it settled', async () => {
    await using t = await continuing();
    expect(await t.start({ childId: ID })).toMatchObject({ childId: ID });
    expect(await rejection(t.start({ childId: ID }))).toMatchObject({ code: 'DUPLICATE_CHILD' });
    await t.gone(ID);
    expect(await rejection(t.start({ childId: ID }))).toMatchObject({ code: 'DUPLICATE_CHILD' });
    expect(t.agents.list()).toEqual([t.root]);
    expect(t.edges).toEqual(['start', 'end completed']);
  });

  it('lets one of two starts with the same id through', async () => {
    await using t = await continuing();
    const starts = await Promise.allSettled([t.start({ childId: ID }), t.start({ childId: ID })]);
    expect(starts.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(starts[1]).toMatchObject({ reason: { code: 'DUPLICATE_CHILD' } });
    await t.gone(ID);
    expect(t.edges).toEqual(['start', 'end completed']);
  });

  it('refuses an id that a preparation gave time to be taken', async () => {
    await using t = await continuing();
    const hold = gate();
    t.subagents.registerProvider(preparing(async () => (await hold.wait(), {})));
    const slow = t.start({ provider: 'preparing', childId: ID });
    await t.start({ childId: ID });
    hold.open();
    expect(await rejection(slow)).toMatchObject({ code: 'DUPLICATE_CHILD' });
    await t.gone(ID);
  });

  it('refuses a provider without preparation, and never calls it', async () => {
    await using t = await continuing();
    const { provider, requests } = stubProvider({ name: 'stub' });
    t.subagents.registerProvider(provider);
    expect(await rejection(t.start({ provider: 'stub' }))).toMatchObject({
      code: 'UNSUPPORTED_CAPABILITY',
    });
    expect(requests).toEqual([]);
    expect(t.agents.list()).toEqual([t.root]);
  });

  it('is refused where nothing is kept, whatever else is wrong', async () => {
    await using t = await continuing();
    const { agents } = t.harness;
    const service = new SubagentRuntime({
      agents,
      continuable: { agents },
      logger: recordingLogger(),
    });
    const given = { provider: 'nobody', request: { maxDepth: Number.NaN } };
    expect(await rejection(t.start({}, service))).toMatchObject({
      code: 'PERSISTENCE_UNAVAILABLE',
    });
    expect(await rejection(t.start(given, service))).toMatchObject({
      code: 'PERSISTENCE_UNAVAILABLE',
    });
  });

  it('is refused where nobody keeps agents', async () => {
    await using t = await continuing();
    const service = new SubagentRuntime({ agents: t.harness.agents, logger: recordingLogger() });
    const code = 'CONTINUATION_UNAVAILABLE';
    expect(await rejection(t.start({}, service))).toMatchObject({ code });
    const following = service.followup(t.root, ID, 'More.', {} as never);
    expect(await rejection(following)).toMatchObject({ code });
    const reporting = service.reportFrom(t.root, [], { delivery: 'quiet' });
    expect(await rejection(reporting)).toMatchObject({ code });
    expect(() => service.interrupt(ID, { kind: 'user', parentSessionId: t.root.id })).not.toThrow();
    await service.drainContinuableDescendants([t.root]);
  });

  it('tells what is wrong in one order, and all of it in the tick of the call', async () => {
    await using t = await continuing({ limits: { maxDepth: 1 } });
    const prepared: string[] = [];
    t.subagents.registerProvider(
      preparing(async ({ sessionId }) => (prepared.push(sessionId), {})),
    );
    const [closing, gone] = await Promise.all([t.agents.create(), t.agents.create()]);
    await gone.dispose();
    await t.subagents.drainContinuableDescendants([closing.agent]);
    const wrong = {
      provider: 'nobody',
      childId: t.root.id,
      request: {
        parent: closing.agent,
        maxDepth: Number.NaN,
        agentOptions: { maxTokens: -1 },
      },
    };
    const signal = AbortSignal.abort('too late');
    const request = wrong.request;
    const steps: [string, Parameters<typeof t.start>[0]][] = [
      ['DRAINING', wrong],
      ['UNAUTHORIZED', { ...wrong, request: { ...request, parent: gone.agent } }],
      ['INVALID_ARGUMENT', { ...wrong, request: { ...request, parent: t.root } }],
      ['DUPLICATE_CHILD', { ...wrong, request: { ...request, parent: t.root, maxDepth: 0 } }],
      [
        'DEPTH_EXCEEDED',
        { ...wrong, childId: ID, request: { ...request, parent: t.root, maxDepth: 0 } },
      ],
      [
        'INVALID_ARGUMENT',
        { ...wrong, childId: ID, request: { ...request, parent: t.root, maxDepth: 1 } },
      ],
    ];
    for (const [code, given] of steps) {
      expect(await rejection(t.start({ ...given, signal })), code).toMatchObject({ code });
    }
    const last = { provider: 'nobody', childId: ID };
    expect(await rejection(t.start({ ...last, signal }))).toBe('too late');
    expect(await rejection(t.start(last))).toMatchObject({ code: 'NO_PROVIDER' });
    expect(prepared).toEqual([]);
    const starting = t.start({ provider: 'preparing', childId: ID });
    expect(prepared).toEqual([ID]);
    await starting;
    await t.gone(ID);
  });

  it.each([
    ['no parent', { request: { parent: undefined as never } }, 'UNAUTHORIZED'],
    ['a text as its parent', { request: { parent: 'root' as never } }, 'UNAUTHORIZED'],
    ['an empty id', { childId: '' }, 'INVALID_ARGUMENT'],
    ['no label', { label: undefined as never }, 'INVALID_ARGUMENT'],
    ['no signal', { signal: undefined as never }, 'INVALID_ARGUMENT'],
    ['a prompt that no model could read', { request: { prompt: [] } }, 'INVALID_ARGUMENT'],
    ['a schema', { request: { outputSchema: {} } as never }, 'INVALID_ARGUMENT'],
    [
      'a model provider that nobody knows',
      { request: { agentOptions: { provider: 'nobody' } } },
      'INVALID_ARGUMENT',
    ],
    [
      'a tool filter of unknown names',
      { request: { toolFilter: { allow: ['nothing'] } } },
      'UNKNOWN_TOOL_NAME',
    ],
  ])('refuses %s, and leaves nothing', async (_, given, code) => {
    await using t = await continuing();
    expect(await rejection(t.start({ childId: ID, ...given }))).toMatchObject({ code });
    expect(t.agents.list()).toEqual([t.root]);
    expect(await t.rows()).toEqual([]);
    expect(t.edges).toEqual([]);
  });

  it('says of a handle that it is no agent', async () => {
    await using t = await continuing();
    const parent = t.rootHandle as never;
    expect(await rejection(t.start({ request: { parent } }))).toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringContaining('handle.agent') as string,
    });
  });

  it.each([
    [0, 'DEPTH_EXCEEDED'],
    [Number.NaN, 'INVALID_ARGUMENT'],
    [-1, 'INVALID_ARGUMENT'],
    [-0, 'INVALID_ARGUMENT'],
    [1.5, 'INVALID_ARGUMENT'],
  ])('is refused with maxDepth %s', async (maxDepth, code) => {
    await using t = await continuing();
    expect(await rejection(t.start({ request: { maxDepth } }))).toMatchObject({ code });
    expect(t.agents.list()).toEqual([t.root]);
  });

  it('needs no flag of its provider for what the service composes', async () => {
    await using t = await continuing();
    const flags = { outputSchema: false, depthLimit: false, toolFilter: false, persona: false };
    t.subagents.registerProvider({ ...preparing(async () => ({})), capabilities: flags });
    const request = { maxDepth: 3, persona: 'A reader.', toolFilter: { allow: [] } };
    const { childId } = await t.start({ provider: 'preparing', request });
    await t.gone(childId);
    expect(t.model.requests[0]!.system).toContain('A reader.');
  });
});

describe('the log of a continuable child', () => {
  it('begins with how it was made, before its first turn', async () => {
    await using t = await continuing({ tools: [], persona: 'Everybody.' });
    const { childId } = await t.start({
      label: 'reader',
      request: {
        agentOptions: { maxTokens: 7 },
        persona: 'A reader.',
        toolFilter: { allow: [] },
      },
    });
    const { session } = t.agents.get(childId)!;
    expect(session.events[0]).toEqual({
      type: 'subagent/descriptor',
      seq: 0,
      time: expect.any(Number) as number,
      data: {
        version: 1,
        mode: 'continuable',
        provider: 'spawn',
        label: 'reader',
        agentProvider: 'script',
        agentModel: 'test',
        maxTokens: 7,
        persona: 'A reader.',
        toolFilter: { allow: [] },
      },
    });
    await t.gone(childId);
    expect(eventTypes(session).slice(0, 4)).toEqual([
      'subagent/descriptor',
      'session/end-seed',
      'agent/inbox/spliced',
      'turn/start',
    ]);
    expect(session.header).toEqual({
      version: 0,
      id: childId,
      createdAt: expect.any(Number) as number,
      parentSession: t.root.id,
      origin: 'subagent',
      delegationDepth: 1,
    });
  });

  it('says nothing of a model when its parent has none', async () => {
    await using t = await continuing();
    const { agent } = await t.agents.create({ agentOptions: {} });
    const { childId } = await t.start({ request: { parent: agent } });
    const child = t.agents.get(childId)!;
    expect(child.session.events[0]!.data).toEqual({
      version: 1,
      mode: 'continuable',
      provider: 'spawn',
      label: 'worker',
    });
    expect(child.options).toEqual({ subagentDepth: 1 });
    await t.gone(childId);
  });

  it('is not touched by what the caller does with its own objects afterwards', async () => {
    await using t = await continuing({
      tools: [{ name: 'look', description: '', parameters: { type: 'object' }, execute: () => '' }],
    });
    const toolFilter = { allow: [] as string[] };
    const prompt = [{ type: 'text' as const, text: 'Work.' }];
    const starting = t.start({ request: { prompt, toolFilter } });
    toolFilter.allow.push('look');
    prompt[0]!.text = 'Play.';
    const { childId } = await starting;
    const child = t.agents.get(childId)!;
    await t.gone(childId);
    expect(told(child)).toEqual(['Work.']);
    expect(t.model.requests[0]!.tools ?? []).toEqual([]);
  });
});

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

  it('by a start edge that cannot be told is undone, and tells no end', async () => {
    await using t = await continuing();
    const failure = new Error('The edge cannot be told.');
    vi.spyOn(SubagentLifecycle.prototype, 'start').mockImplementationOnce(() => {
      throw failure;
    });
    expect(await rejection(t.start())).toBe(failure);
    expect(t.edges).toEqual([]);
    expect(t.agents.list()).toEqual([t.root]);
    await t.subagents.drainContinuableDescendants([t.root]);
    expect(await t.rows()).toEqual([]);
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
    store.failure = ioError();
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
    store.failure = ioError();
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
    expect(await starting).toMatchObject({ code: 'UNAUTHORIZED' });
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
    await using t = await continuing();
    await t.ask('Hello.');
    const seed = structuredClone(t.root.session.completedTurns()!) as unknown[];
    const count = seed.length;
    t.subagents.registerProvider(
      preparing(async () => {
        queueMicrotask(() => queueMicrotask(() => setImmediate(() => seed.splice(0))));
        return { seed: seed as never };
      }),
    );
    const hold = gate();
    t.harness.on('agent/created', () => hold.open());
    const { childId } = await t.start({ provider: 'preparing', childId: 'seeded' });
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

describe('the service', () => {
  it('has what is spoken of and nothing that goes around it', () => {
    const names = Object.getOwnPropertyNames(SubagentRuntime.prototype).sort();
    expect(names).toEqual([
      'constructor',
      'drainContinuableChildren',
      'drainContinuableDescendants',
      'followup',
      'getProvider',
      'interrupt',
      'list',
      'on',
      'registerContinuableSetup',
      'registerProvider',
      'reportFrom',
      'start',
      'startContinuable',
    ]);
  });

  it('registers no tool by itself', async () => {
    await using t = await continuing();
    const { childId } = await t.start();
    await t.gone(childId);
    expect(t.model.requests[0]!.tools ?? []).toEqual([]);
  });
});
