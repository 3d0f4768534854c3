import { describe, expect, it } from 'vitest';
import { WorkerError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import { gate } from '../support/gate.ts';
import { testHarness } from '../support/harness.ts';
import { settled } from '../support/until.ts';
import { watch } from './watch.ts';

describe('creating an agent', () => {
  it('publishes it whole: session first, then the agent, then the handle', async () => {
    await using rt = await testHarness();
    const told = watch(rt.harness);
    const seen: unknown[] = [];
    rt.harness.on('agent/created', ({ agent }) => {
      seen.push(rt.harness.agents.get(agent.id), rt.harness.sessions.get(agent.id));
    });
    const { agent } = await rt.harness.agents.create({ sessionId: 'mine' });
    expect(told).toEqual(['session/created', 'agent/created']);
    expect(seen).toEqual([agent, agent.session]);
    expect(agent.id).toBe('mine');
    expect(agent.status).toBe('idle');
    expect(rt.harness.agents.list()).toEqual([rt.root, agent]);
  });

  it('runs nothing and leaves no row until it is told something', async () => {
    await using rt = await testHarness({ script: ['Hello.'] });
    const { sessionPersistence: store } = rt.harness;
    const silent = await rt.harness.agents.create();
    await settled();
    expect(rt.model.requests).toEqual([]);
    expect(await store.list()).toEqual([]);
    await rt.ask('Hi');
    expect((await store.list()).map(({ id }) => id)).toEqual([rt.root.id]);
    await silent.dispose();
    expect(await store.list()).toHaveLength(1);
  });

  it.each([
    ['an unknown provider', { agentOptions: { provider: 'nobody' } }, /"nobody".*"script"/],
    ['a provider that is no text', { agentOptions: { provider: 7 as never } }, /"provider"/],
    ['a model that is no text', { agentOptions: { model: (() => 'm') as never } }, /"model"/],
    ['no tokens', { agentOptions: { maxTokens: 0 } }, /maxTokens/],
    ['half a token', { agentOptions: { maxTokens: 1.5 } }, /maxTokens/],
    ['a relative directory', { meta: { cwd: 'here' } }, /cwd/],
    ['an empty id', { sessionId: '' }, /id/],
    ['a turn of no time', { limits: { turnMs: 0 } }, /turnMs/],
    ['too little memory', { limits: { memoryMb: 1 } }, /memoryMb/],
  ])('is refused with %s, and nothing is made', async (_, options, words) => {
    await using rt = await testHarness();
    const told = watch(rt.harness);
    const made = rt.threads.all.length;
    await expect(rt.harness.agents.create(options)).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringMatching(words),
    });
    expect(told).toEqual([]);
    expect(rt.threads.all).toHaveLength(made);
  });

  it('takes the model of the harness when no options are given, and none with empty ones', async () => {
    await using rt = await testHarness({ script: [] });
    const without = await rt.harness.agents.create({ agentOptions: {} });
    expect(rt.root.options).toEqual({ provider: 'script', model: 'test' });
    expect(without.agent.options).toEqual({});
    await rt.ask('Hi', without.agent);
    expect(without.agent.session.events.at(-1)?.data).toMatchObject({
      reason: { kind: 'error', error: { message: expect.stringContaining('no model') } },
    });
  });

  it('publishes exactly one of two agents with one id', async () => {
    await using rt = await testHarness();
    const told = watch(rt.harness);
    const both = await Promise.allSettled([
      rt.harness.agents.create({ sessionId: 'same' }),
      rt.harness.agents.create({ sessionId: 'same' }),
    ]);
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(both.find(({ status }) => status === 'rejected')).toMatchObject({
      reason: { code: 'INVALID_ARGUMENT' },
    });
    expect(told).toEqual(['session/created', 'agent/created']);
    expect(rt.harness.agents.list()).toHaveLength(2);
  });
});

describe('a creation that fails leaves nothing,', () => {
  it('when its thread does not start', async () => {
    const failure = new WorkerError('WORKER_START_FAILED', 'No thread today.');
    await using rt = await testHarness({
      threads: { failStart: (index) => (index === 1 ? failure : undefined) },
    });
    const told = watch(rt.harness);
    await expect(rt.harness.agents.create({ sessionId: 'x' })).rejects.toBe(failure);
    expect(told).toEqual([]);
    // The id is free.
    await rt.harness.agents.create({ sessionId: 'x' });
  });

  it('when its setup throws; what the setup had made is undone', async () => {
    await using rt = await testHarness();
    const told = watch(rt.harness);
    const undone: string[] = [];
    const made = rt.threads.all.length;
    const creation = rt.harness.agents.create({
      setup(child) {
        child.onDispose(() => void undone.push('first'));
        child.onDispose(() => void undone.push('second'));
        throw new Error('Not composed.');
      },
    });
    await expect(creation).rejects.toThrow('Not composed.');
    expect(undone).toEqual(['second', 'first']);
    expect(told).toEqual([]);
    expect(rt.threads.all).toHaveLength(made);
  });

  it('when its setup hides tools that do not exist', async () => {
    await using rt = await testHarness();
    const creation = rt.harness.agents.create({
      setup: ({ tools }) => void tools.restrict({ deny: ['nothing'] }),
    });
    await expect(creation).rejects.toMatchObject({ code: 'UNKNOWN_TOOL_NAME' });
    await rt.threads.all.at(-1)?.ended;
    expect(rt.harness.agents.list()).toEqual([rt.root]);
  });

  it('when a listener vetoes the session', async () => {
    await using rt = await testHarness();
    const told = watch(rt.harness);
    const off = rt.harness.on('session/created', () => {
      throw new Error('No.');
    });
    await expect(rt.harness.agents.create({ sessionId: 'x' })).rejects.toThrow('No.');
    off();
    expect(told).toEqual(['session/created', 'session/disposed']);
    expect(rt.harness.sessions.get(SessionId('x'))).toBeUndefined();
    await rt.threads.all.at(-1)?.ended;
    await rt.harness.agents.create({ sessionId: 'x' });
  });

  it('when a listener vetoes the agent: every announcement is taken back', async () => {
    await using rt = await testHarness();
    const told = watch(rt.harness);
    const undone: string[] = [];
    const off = rt.harness.on('agent/created', () => {
      throw new Error('No.');
    });
    const creation = rt.harness.agents.create({
      sessionId: 'x',
      setup: (child) => child.onDispose(() => void undone.push('undone')),
    });
    await expect(creation).rejects.toThrow('No.');
    off();
    expect(told).toEqual([
      'session/created',
      'agent/created',
      'agent/disposed',
      'session/disposed',
    ]);
    expect(undone).toEqual(['undone']);
    expect(rt.harness.agents.list()).toEqual([rt.root]);
    await rt.harness.agents.create({ sessionId: 'x' });
  });

  it('but not when a listener fails later: that vetoes nothing', async () => {
    await using rt = await testHarness();
    rt.harness.on('agent/created', () => Promise.reject(new Error('Too late.')));
    await rt.harness.agents.create();
    await settled();
    expect(rt.warnings).toMatchObject([{ error: { message: 'Too late.' } }]);
  });

  it('when its signal is aborted, before or while its thread starts', async () => {
    const held = gate();
    let holds = false;
    await using rt = await testHarness({
      tools: [{ module: new URL('file:///held.mjs') }],
      threads: {
        async import() {
          if (holds) await held.wait();
          return { default: [] };
        },
      },
    });
    holds = true;
    const told = watch(rt.harness);
    const reason = new Error('Changed my mind.');
    const { agents } = rt.harness;
    await expect(agents.create({ signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    const controller = new AbortController();
    const creation = agents.create({ signal: controller.signal });
    await settled();
    controller.abort(reason);
    await expect(creation).rejects.toBe(reason);
    expect(told).toEqual([]);
    held.open();
  });
});

it('does not mind its signal once an agent is made', async () => {
  await using rt = await testHarness({ script: ['Hello.'] });
  const controller = new AbortController();
  const { agent } = await rt.harness.agents.create({ signal: controller.signal });
  controller.abort();
  await rt.ask('Hi', agent);
  expect(agent.session.events.at(-1)?.data).toMatchObject({ reason: { kind: 'completed' } });
});

describe('a setup', () => {
  it('gives an agent tools and prompts of its own', async () => {
    await using rt = await testHarness({ script: ['One.', 'Two.'] });
    const { agent } = await rt.harness.agents.create({
      setup({ tools, prompt }) {
        tools.register({
          name: 'own',
          description: 'Only here.',
          parameters: { type: 'object' },
          execute: () => 'x',
        });
        prompt.section({ name: 'own', order: 1, text: 'You are special.' });
      },
    });
    await rt.ask('Hi', agent);
    await rt.ask('Hi');
    expect(
      rt.model.requests.map(({ system, tools }) => [system, tools?.map((t) => t.name)]),
    ).toEqual([
      ['You are special.', ['own']],
      [undefined, undefined],
    ]);
  });
});

describe('an owned agent', () => {
  it('ends with its owner, children first', async () => {
    await using rt = await testHarness();
    const { agents } = rt.harness;
    const child = await agents.create({ owner: rt.root, sessionId: 'child' });
    await agents.create({ owner: child.agent, sessionId: 'grandchild' });
    const order: string[] = [];
    rt.harness.on('agent/disposed', ({ agent }) => order.push(agent.id));
    expect(agents.isWaiting(rt.root)).toBe(true);
    await rt.rootHandle.dispose();
    expect(order).toEqual(['grandchild', 'child', rt.root.id]);
    expect(agents.list()).toEqual([]);
  });

  it('leaves its owner when it ends itself', async () => {
    await using rt = await testHarness();
    const child = await rt.harness.agents.create({ owner: rt.root });
    await child.dispose();
    expect(rt.harness.agents.isWaiting(rt.root)).toBe(false);
  });

  it('cannot be made for somebody who is not live', async () => {
    await using rt = await testHarness();
    const owner = await rt.harness.agents.create({ sessionId: 'owner' });
    await owner.dispose();
    const again = await rt.harness.agents.create({ sessionId: 'owner' });
    await expect(rt.harness.agents.create({ owner: owner.agent })).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
    });
    await rt.harness.agents.create({ owner: again.agent });
  });

  it('is not published for an owner that ended meanwhile', async () => {
    await using rt = await testHarness();
    const owner = await rt.harness.agents.create();
    const creation = rt.harness.agents.create({ owner: owner.agent });
    const ending = owner.dispose();
    await expect(creation).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
    await ending;
    expect(rt.harness.agents.list()).toEqual([rt.root]);
  });
});
