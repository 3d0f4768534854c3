/** Hooks of one-shot children, and what the result of their run makes of it. */
import { expect, it } from 'vitest';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import type { SubagentResult } from '../../src/subagents/provider.ts';
import type { Agent } from '../../src/agent/agent.ts';
import { eventTypes, testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { ends, has } from './agent-words.ts';

async function run(rt: TestHarness): Promise<SubagentResult & { readonly child: Agent }> {
  const prompt = [{ type: 'text' as const, text: 'Work.' }];
  const { signal } = new AbortController();
  const delegated = await rt.harness.subagents.start('spawn', { parent: rt.root, prompt, signal });
  const result = await delegated.result;
  await delegated.dispose();
  return { ...result, child: delegated.localAgent! };
}

it('refuses the task of a child, which leaves it without a descriptor and a step', async () => {
  await using rt = await testHarness();
  rt.harness.hooks.on('agent/pre-step', () => ({ kind: 'reject', reason: 'Not that.' }));
  const { child, ...result } = await run(rt);
  expect(result).toMatchObject({ output: [], stopReason: 'refusal' });
  expect(eventTypes(child.session)).toEqual([
    'agent/inbox/spliced',
    'turn/start',
    'agent/inbox/spliced',
    'turn/end',
  ]);
  expect(child.session.events.at(-1)?.data).toEqual({
    turn: 1,
    reason: { kind: 'blocked', reason: 'Not that.' },
  });
  expect(rt.model.requests).toEqual([]);
});

it('writes the descriptor of a child once all hooks let it in, before its first step', async () => {
  await using rt = await testHarness({ script: ['Done.'] });
  let wasDescribed: boolean | undefined;
  rt.harness.hooks.on('agent/pre-step', async ({ agent }, next) => {
    const decision = await next();
    wasDescribed = has(agent.session, 'subagent/descriptor');
    return decision;
  });
  const { child, stopReason } = await run(rt);
  expect([wasDescribed, stopReason]).toEqual([false, 'completed']);
  expect(eventTypes(child.session).slice(0, 6)).toEqual([
    'agent/inbox/spliced',
    'turn/start',
    'agent/inbox/spliced',
    'subagent/descriptor',
    'step/start',
    'user/message',
  ]);
});

it('tells the result from the turn that worked, not from one after it that found nothing', async () => {
  await using rt = await testHarness({ script: [{ text: 'Cut', finish: 'max-tokens' }] });
  rt.harness.hooks.on('agent/turn-stopping', ({ agent, turn }) => {
    if (turn === 1) agent.followup(message('And?'));
  });
  rt.harness.hooks.on('agent/pre-step', ({ turn }) =>
    turn === 2 ? { kind: 'enter', messages: [] } : undefined,
  );
  const { child, ...result } = await run(rt);
  expect(ends(child.session)).toEqual(['max-tokens', 'completed']);
  expect(result).toMatchObject({
    output: [{ type: 'text', text: 'Cut' }],
    stopReason: 'max-tokens',
  });
});

it('gives a child a further step, whose answer is its result', async () => {
  await using rt = await testHarness({ script: ['Half.', 'Whole.'] });
  let asked = 0;
  rt.harness.hooks.on('agent/turn-stopping', ({ agent }) => {
    if (++asked === 1) agent.steer(message('Go on.'));
  });
  const { output, stopReason } = await run(rt);
  expect([output, stopReason]).toEqual([[{ type: 'text', text: 'Whole.' }], 'completed']);
});
