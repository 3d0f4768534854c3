/** A child is told through its own parent, however much of what is above it has settled. */
import { expect, it } from 'vitest';
import type { Harness } from '../../src/harness.ts';
import type { Agent } from '../../src/agent/agent.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { connectControl, localControl } from '../../src/serve/connect-control.ts';
import { openControlSocket } from '../../src/serve/control-socket.ts';
import { testHarness } from '../support/harness.ts';
import { served, tempFolder } from './served.ts';
import { join } from 'node:path';

const startBelow = async (harness: Harness, parent: Agent, label: string): Promise<SessionId> => {
  const { signal } = new AbortController();
  const request = { parent, prompt: label };
  const { childId } = await harness.subagents.startContinuable({
    provider: 'spawn',
    label,
    request,
    signal,
  });
  return childId;
};

it('brings back a root and the parent in between, which hears of the end of its child', async () => {
  using temp = tempFolder();
  const store = join(temp.folder, 'agents.db');
  let rootId = '';
  let middle = '';
  let lowest = '';
  {
    await using t = await testHarness({ store, script: () => 'Done.' });
    rootId = t.root.id;
    await t.ask('Go');
    const ended = { count: 0 };
    t.harness.on('subagent/end', () => void ended.count++);
    t.harness.on('agent/created', ({ agent }) => {
      if (agent.session.header.delegationDepth !== 1) return;
      void startBelow(t.harness, agent, 'lowest').then((id) => void (lowest = id));
    });
    middle = await startBelow(t.harness, t.root, 'middle');
    while (ended.count < 2) await new Promise((done) => setImmediate(done));
    await t.root.whenIdle();
  }
  await using t = await testHarness({ store, script: () => 'Again.' });
  await using socket = await openControlSocket(t.harness);
  void socket;
  const [client] = await connectControl(store);
  const edges: string[] = [];
  const name = (id: string): string =>
    ({ [rootId]: 'root', [middle]: 'middle', [lowest]: 'lowest' })[id] ?? id;
  t.harness.on('subagent/start', ({ id }) => void edges.push(`start ${name(id)}`));
  t.harness.on('subagent/end', ({ id }) => void edges.push(`end ${name(id)}`));
  const { messageId } = await client!.call('session/send', { sessionId: lowest, text: 'More' });
  expect(edges.slice(0, 2)).toEqual(['start middle', 'start lowest']);
  while (edges.length < 4) await new Promise((done) => setImmediate(done));
  expect(edges).toEqual(['start middle', 'start lowest', 'end lowest', 'end middle']);
  const { events } = await t.harness.sessions.inspect(lowest as SessionId);
  const told = events.findLast(({ type }) => type === 'user/message');
  expect(told).toMatchObject({ data: { id: messageId, source: { kind: 'user' } } });
  const between = await t.harness.sessions.inspect(middle as SessionId);
  const heard = between.events.findLast(({ type }) => type === 'user/message');
  expect(heard).toMatchObject({ data: { source: { kind: 'subagent-settled' } } });
  await client!.close();
});

it('lets a parent go again that it brought back for nothing', async () => {
  using temp = tempFolder();
  const store = join(temp.folder, 'agents.db');
  let middle = '';
  let oneShot = '';
  {
    await using t = await testHarness({ store, script: () => 'Done.' });
    await t.ask('Go');
    const ended: string[] = [];
    t.harness.on('subagent/end', ({ id }) => void ended.push(id));
    t.harness.on('agent/created', ({ agent }) => {
      if (agent.session.header.delegationDepth !== 1) return;
      const { signal } = new AbortController();
      const request = { parent: agent, prompt: 'Look.', signal };
      void t.harness.subagents.start('spawn', request).then(async (run) => {
        oneShot = run.id;
        await run.result;
        await run.dispose();
      });
    });
    middle = await startBelow(t.harness, t.root, 'middle');
    while (ended.length < 2) await new Promise((done) => setImmediate(done));
    await t.root.whenIdle();
  }
  await using t = await testHarness({ store, script: () => 'Again.' });
  await using client = await localControl(t.harness);
  const ended: string[] = [];
  t.harness.on('subagent/end', ({ id }) => void ended.push(id));
  await expect(
    client.call('session/send', { sessionId: oneShot, text: 'More' }),
  ).rejects.toMatchObject({ code: 'NOT_RESUMABLE' });
  while (ended.length < 1) await new Promise((done) => setImmediate(done));
  expect(ended).toEqual([middle]);
});

it('does not tell a one-shot child, and says why', async () => {
  await using s = await served({ script: () => 'Done.' });
  await s.t.ask('Go');
  const { signal } = new AbortController();
  const run = await s.t.harness.subagents.start('spawn', {
    parent: s.t.root,
    prompt: 'Look.',
    signal,
  });
  await run.result;
  await run.dispose();
  await expect(
    s.client.call('session/send', { sessionId: run.id, text: 'More' }),
  ).rejects.toMatchObject({ code: 'NOT_RESUMABLE' });
});

it('interrupts a continuable child as its user, with the parent that its header names', async () => {
  await using s = await served({ script: () => new Promise(() => {}) as never });
  const childId = await startBelow(s.t.harness, s.t.root, 'long');
  const child = s.t.harness.agents.get(childId)!;
  while (child.session.open?.step === undefined) await new Promise((done) => setImmediate(done));
  await s.client.call('session/interrupt', { sessionId: childId });
  await child.whenIdle();
  expect(child.session.events.findLast(({ type }) => type === 'turn/end')).toMatchObject({
    data: { reason: { kind: 'aborted', reason: { kind: 'user' } } },
  });
});

it('drains what goes on below an agent', async () => {
  await using s = await served({ script: () => new Promise(() => {}) as never });
  const childId = await startBelow(s.t.harness, s.t.root, 'long');
  expect(await s.client.call('session/drain', { sessionId: s.t.root.id })).toEqual({ ended: 1 });
  expect(s.t.harness.agents.get(childId)).toBeUndefined();
});
