/** What a listener does in the middle of things must not leave half of them. */
import { describe, expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { census } from '../../src/base/census.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { until } from '../support/until.ts';

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
