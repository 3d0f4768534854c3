import { expect, it } from 'vitest';
import { textOf } from '../../protocol/content.ts';
import { gate } from '../../src/base/gate.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import { until } from '../support/until.ts';
import { ends } from '../worker-host/agent-words.ts';

const signal = (): AbortSignal => new AbortController().signal;
const USER = { kind: 'user' } as const;
const task = (text: string) => [{ type: 'text' as const, text }];

it('starts, is told more, settles, and is brought back', async () => {
  await using rt = await testHarness({ script: () => 'Done.' });
  const { subagents, agents, sessions } = rt.harness;
  const edges: string[] = [];
  rt.harness.on('subagent/start', () => edges.push('start'));
  rt.harness.on('subagent/end', ({ stopReason }) => edges.push(`end ${stopReason}`));
  const { childId, messageId } = await subagents.startContinuable({
    provider: 'spawn',
    label: 'worker',
    request: { parent: rt.root, prompt: task('First.') },
    signal: signal(),
  });
  expect(agents.get(childId)).toBeDefined();
  expect(typeof messageId).toBe('string');
  await until(() => agents.get(childId) === undefined);
  await rt.root.whenIdle();
  expect(edges).toEqual(['start', 'end completed']);
  expect(ends(rt.root.session)).toEqual(['completed']);
  const [notice] = rt.root.session.deriveMessages();
  expect(textOf(notice!.content)).toContain('has finished');
  await subagents.followup(rt.root, childId, 'Second.', { source: USER, signal: signal() });
  await until(() => agents.get(childId) === undefined);
  await rt.root.whenIdle();
  expect(edges).toEqual(['start', 'end completed', 'start', 'end completed']);
  const { events } = await sessions.inspect(childId);
  expect(events.filter(({ type }) => type === 'subagent/descriptor')).toHaveLength(1);
  expect(events.slice(0, 2).map(({ type }) => type)).toEqual([
    'subagent/descriptor',
    'session/end-seed',
  ]);
  expect(eventTypes(rt.root.session).filter((type) => type === 'turn/end')).toHaveLength(2);
});

it('keeps what waits when it is interrupted, and goes on with the next message', async () => {
  const held = gate();
  await using rt = await testHarness({
    script: [{ hold: held, text: 'A' }, 'B', 'C', 'D', 'Noted.', 'Noted.'],
  });
  const { subagents, agents } = rt.harness;
  const { childId } = await subagents.startContinuable({
    provider: 'spawn',
    label: 'worker',
    request: { parent: rt.root, prompt: task('A.') },
    signal: signal(),
  });
  const child = agents.get(childId)!;
  await held.arrived();
  const more = (text: string) =>
    subagents.followup(rt.root, childId, text, { source: USER, signal: signal() });
  await more('B.');
  await more('C.');
  subagents.interrupt(childId, { kind: 'user', parentSessionId: rt.root.id });
  await child.whenIdle();
  expect(agents.get(childId)).toBe(child);
  expect(child.inbox.nextTurn).toHaveLength(2);
  await more('D.');
  await until(() => agents.get(childId) === undefined);
  expect(ends(child.session)).toEqual(['aborted user', 'completed', 'completed', 'completed']);
});

it('is drained with its parent, which is let go last', async () => {
  const held = gate();
  await using rt = await testHarness({ script: [{ hold: held, text: 'A' }] });
  const { subagents, agents } = rt.harness;
  const { childId } = await subagents.startContinuable({
    provider: 'spawn',
    label: 'worker',
    request: { parent: rt.root, prompt: task('A.') },
    signal: signal(),
  });
  await held.arrived();
  const order: string[] = [];
  rt.harness.on('agent/disposed', ({ agent }) => order.push(agent === rt.root ? 'root' : 'child'));
  await rt.rootHandle.dispose();
  expect(order).toEqual(['child', 'root']);
  expect(agents.get(childId)).toBeUndefined();
});
