/** What a listener does in the middle of things must not leave half of them. */
import { describe, expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { Agent, AgentHandle } from '../../src/agent/agent.ts';
import { census } from '../../src/base/census.ts';
import { gate } from '../../src/base/gate.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { settled, until } from '../support/until.ts';

const start = (rt: TestHarness, parent = rt.root) =>
  rt.harness.subagents.start('spawn', {
    parent,
    prompt: [{ type: 'text', text: 'go' }],
    signal: new AbortController().signal,
  });

describe('a listener of a session’s events', () => {
  it('can dispose its agent though messages wait', async () => {
    await using rt = await testHarness({ script: ['One.', 'Two.'] });
    let disposal: Promise<void> | undefined;
    rt.harness.on('session/event', ({ event }) => {
      if (event.type === 'turn/start') disposal ??= rt.rootHandle.dispose();
    });
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await until(() => disposal !== undefined);
    await disposal;
    expect(rt.harness.agents.list()).toEqual([]);
    expect(rt.root.inbox.hasPending).toBe(false);
    expect(rt.model.requests).toEqual([]);
  });

  it('can cancel the turn, and what waits is discarded', async () => {
    await using rt = await testHarness({ script: ['One.', 'Two.'] });
    rt.harness.on('session/event', ({ event }) => {
      if (event.type === 'assistant/chunk') rt.root.cancel({ kind: 'user' });
    });
    rt.root.followup(message('one'));
    rt.root.followup(message('two'));
    await rt.root.whenIdle();
    const ends = rt.root.session.events.filter(({ type }) => type === 'turn/end');
    expect(ends.map(({ data }) => data)).toMatchObject([{ reason: { kind: 'aborted' } }]);
    expect(rt.root.inbox.hasPending).toBe(false);
  });
});

describe('a listener that cancels at the very start of a turn', () => {
  it('stops it before a model is asked, and what waits goes on waiting', async () => {
    await using rt = await testHarness({ script: ['Never.'] });
    rt.harness.on('session/event', ({ event }) => {
      if (event.type === 'turn/start') rt.root.cancel({ kind: 'user' }, { keepInbox: true });
    });
    await rt.ask('Hi');
    expect(rt.model.requests).toEqual([]);
    expect(rt.root.inbox.nextTurn).toHaveLength(1);
    expect(rt.root.session.events.at(-1)).toMatchObject({
      type: 'turn/end',
      data: { reason: { kind: 'aborted' } },
    });
  });

  it('stops that of a host as well', async () => {
    await using rt = await testHarness();
    const batches: unknown[] = [];
    const host = await rt.harness.agents.createHost({
      onMessage: (batch) => void batches.push(batch),
    });
    rt.harness.on('session/event', ({ event }) => {
      if (event.type === 'turn/start') host.agent.cancel({ kind: 'user' }, { keepInbox: true });
    });
    host.agent.followup(message('one'));
    await host.agent.whenIdle();
    await until(() => host.agent.session.open === undefined && host.agent.session.lastTurn === 1);
    expect(batches).toEqual([]);
    expect(host.agent.inbox.nextTurn).toHaveLength(1);
  });
});

describe('a child whose owner is disposed while it is announced', () => {
  it.each(['session/created', 'agent/created'] as const)(
    'at %s does not come to be',
    async (at) => {
      await using rt = await testHarness({ script: ['Never.'] });
      const host = await rt.harness.agents.createHost();
      let disposal: Promise<void> | undefined;
      rt.harness.on(at, () => void (disposal ??= host.dispose()));
      await expect(start(rt, host.agent)).rejects.toMatchObject({ code: 'UNAUTHORIZED' });
      await disposal;
      expect(rt.harness.agents.list()).toEqual([rt.root]);
      expect(await rt.harness.sessionPersistence.list()).toEqual([]);
      expect(rt.model.requests).toEqual([]);
    },
  );
});

describe('a host that is disposed by a listener of its own inbox', () => {
  it.each(['agent/inbox/inserted', 'agent/inbox/claimed'] as const)('at %s is gone', async (at) => {
    await using rt = await testHarness();
    const host = await rt.harness.agents.createHost({ onMessage() {} });
    let disposal: Promise<void> | undefined;
    rt.harness.on(at, () => void (disposal ??= host.dispose()), { agent: host.agent });
    host.agent.followup(message('one'));
    await until(() => disposal !== undefined);
    await disposal;
    await host.agent.whenIdle();
    expect(host.agent.session.open).toBeUndefined();
    expect(rt.harness.agents.list()).toEqual([rt.root]);
  });
});

it('tells of no running agent that was disposed while its message came in', async () => {
  await using rt = await testHarness();
  const told: string[] = [];
  rt.harness.on('agent/inbox/inserted', () => void rt.rootHandle.dispose());
  rt.harness.on('agent/status', ({ status }) => told.push(status));
  rt.root.followup(message('one'));
  await rt.rootHandle.dispose();
  expect(told).toEqual([]);
});

it('leaves no thread behind when a disposal comes from a listener', async () => {
  const before = census.open();
  {
    await using rt = await testHarness({ script: ['One.'] });
    rt.harness.on('agent/status', () => void rt.rootHandle.dispose());
    rt.root.followup(message('one'));
    await rt.root.whenIdle();
  }
  expect(census.open()).toEqual(before);
});

describe.each(['thread', 'host'] as const)('an agent of a %s that a listener stops', (kind) => {
  type Event = 'session/event' | 'agent/inbox/inserted' | 'agent/status' | 'agent/inbox/claimed';
  const KEEP = { keepInbox: true };
  const texts = ({ inbox }: Agent): string[] =>
    [...inbox.nextStep, ...inbox.nextTurn].map(({ content }) => JSON.stringify(content[0]));
  const agentOf = async (rt: TestHarness): Promise<AgentHandle> =>
    kind === 'thread' ? rt.rootHandle : rt.harness.agents.createHost({ onMessage() {} });

  /** The first event of this kind that concerns the message, while it is told. */
  const once = (rt: TestHarness, agent: Agent, at: Event, act: () => void): void => {
    let isDone = false;
    const listen = (): void => {
      if (isDone) return;
      isDone = true;
      act();
    };
    rt.harness.on(at, listen, { agent });
  };

  it.each(['session/event', 'agent/inbox/inserted', 'agent/status'] as const)(
    'at %s before its turn opens none, and what it was told waits for the next message',
    async (at) => {
      await using rt = await testHarness({ script: ['One.', 'Two.'] });
      const { agent } = await agentOf(rt);
      once(rt, agent, at, () => agent.cancel({ kind: 'user' }, KEEP));
      agent.followup(message('one'));
      await settled();
      expect(agent.status).toBe('idle');
      expect(agent.session.lastTurn).toBe(0);
      expect(texts(agent)).toHaveLength(1);
      expect(rt.stalls()).toEqual([]);
      agent.followup(message('two'));
      await until(() => agent.status === 'idle');
      expect(agent.session.lastTurn).toBe(2);
      expect(texts(agent)).toEqual([]);
    },
  );

  it.each(['session/event', 'agent/inbox/inserted', 'agent/status'] as const)(
    'at %s before its turn discards what it was told, if that is asked for',
    async (at) => {
      await using rt = await testHarness({ script: ['One.', 'Two.'] });
      const { agent } = await agentOf(rt);
      once(rt, agent, at, () => agent.cancel({ kind: 'user' }));
      agent.followup(message('one'));
      await settled();
      expect([agent.status, agent.session.lastTurn, texts(agent)]).toEqual(['idle', 0, []]);
      agent.followup(message('two'));
      await until(() => agent.status === 'idle');
      expect(agent.session.lastTurn).toBe(1);
    },
  );

  it('runs what a listener tells it after that', async () => {
    await using rt = await testHarness({ script: ['One.', 'Two.'] });
    const { agent } = await agentOf(rt);
    once(rt, agent, 'agent/inbox/inserted', () => {
      agent.cancel({ kind: 'user' }, KEEP);
      agent.followup(message('two'));
    });
    agent.followup(message('one'));
    await settled();
    await until(() => agent.status === 'idle');
    expect(agent.session.lastTurn).toBe(2);
    expect(texts(agent)).toEqual([]);
  });

  it('at the claim of its message ends that turn, and what waits behind it waits on', async () => {
    await using rt = await testHarness({ script: ['Never.'] });
    const { agent } = await agentOf(rt);
    once(rt, agent, 'agent/inbox/claimed', () => agent.cancel({ kind: 'user' }, KEEP));
    agent.followup(message('one'));
    agent.followup(message('two'));
    await settled();
    await until(() => agent.status === 'idle');
    expect(rt.model.requests).toEqual([]);
    expect(agent.session.lastTurn).toBe(1);
    expect(agent.session.events.findLast(({ type }) => type === 'turn/end')).toMatchObject({
      data: { reason: { kind: 'aborted', reason: { kind: 'user' } } },
    });
    expect(texts(agent)).toEqual([expect.stringContaining('two')]);
    expect(rt.stalls()).toEqual([]);
  });

  it('while its turn is open does not run what was just inserted behind it', async () => {
    const held = gate();
    await using rt = await testHarness({ script: [{ hold: held, text: 'One.' }, 'Two.'] });
    const { agent } =
      kind === 'thread'
        ? rt.rootHandle
        : await rt.harness.agents.createHost({ onMessage: () => held.wait() });
    agent.followup(message('one'));
    await held.arrived();
    once(rt, agent, 'agent/inbox/inserted', () => agent.cancel({ kind: 'user' }, KEEP));
    agent.followup(message('two'));
    held.open();
    await until(() => agent.status === 'idle');
    await settled();
    expect(agent.session.lastTurn).toBe(1);
    expect(texts(agent)).toEqual([expect.stringContaining('two')]);
  });

  it.each([
    'session/event',
    'agent/inbox/inserted',
    'agent/status',
    'agent/inbox/claimed',
  ] as const)('for good at %s is gone, and nothing of it is left', async (at) => {
    await using rt = await testHarness({ script: ['Never.'] });
    const handle = await agentOf(rt);
    let disposal: Promise<void> | undefined;
    once(rt, handle.agent, at, () => void (disposal ??= handle.dispose()));
    handle.agent.followup(message('one'));
    await until(() => disposal !== undefined);
    await disposal;
    expect(rt.harness.agents.get(handle.agent.id)).toBeUndefined();
    expect(handle.agent.session.open).toBeUndefined();
    expect(texts(handle.agent)).toEqual([]);
    expect(rt.model.requests).toEqual([]);
  });
});
