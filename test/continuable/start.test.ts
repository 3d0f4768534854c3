import { describe, expect, it } from 'vitest';
import { gate } from '../../src/base/gate.ts';
import { scriptedModel } from '../../src/models/scripted.ts';
import { SubagentRuntime } from '../../src/subagents/runtime.ts';
import { recordingLogger, rejection, stubProvider } from '../subagents/stubs.ts';
import { eventTypes } from '../support/harness.ts';
import { StallingStore } from '../support/stalling-store.ts';
import { ID, continuing, preparing, told } from './continuing.ts';
import type { UserMessage } from '../../protocol/content.ts';

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

  it('says so too when somebody else makes an agent of that id meanwhile', async () => {
    const hold = gate();
    await using t = await continuing({
      models: { module: { module: new URL('file:///held.mjs') } },
      threads: {
        import: async () => (await hold.wait(), { default: scriptedModel(['Done.']) }),
      },
    });
    const agentOptions = { provider: 'module', model: 'test' };
    const starting = rejection(t.start({ childId: ID, request: { agentOptions } }));
    await hold.arrived();
    const other = await t.agents.create({ sessionId: ID });
    hold.open();
    expect(await starting).toMatchObject({ name: 'SubagentError', code: 'DUPLICATE_CHILD' });
    expect(t.agents.get(ID)).toBe(other.agent);
    expect(t.edges).toEqual([]);
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
      expect(await rejection(t.start({ ...given, signal }))).toMatchObject({ code });
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
      'listChildren',
      'listDescendants',
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
