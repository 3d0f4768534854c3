/** Hooks that wait for a child of their agent, when there is no thread for one. */
import { expect, it } from 'vitest';
import type { AgentHooks } from '../../src/agent/hooks.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { testHarness } from '../support/harness.ts';
import { settled } from '../support/until.ts';
import { ends } from './agent-words.ts';

const failure = { code: 'AUTH', message: 'No key.' };

it.each<[keyof AgentHooks, string]>([
  ['agent/pre-step', 'completed'],
  ['agent/request', 'completed'],
  ['agent/request-error', 'error AUTH'],
  ['agent/turn-stopping', 'completed'],
])('%s: the start is refused, and the agent goes on', async (type, end) => {
  await using rt = await testHarness({
    limits: { maxThreads: 1 },
    script: [type === 'agent/request-error' ? { failure } : 'Done.'],
  });
  const refusals: unknown[] = [];
  const delegate = async (): Promise<undefined> => {
    const { signal } = new AbortController();
    const prompt = [{ type: 'text' as const, text: 'Work.' }];
    await rt.harness.subagents
      .start('spawn', { parent: rt.root, prompt, signal })
      .catch((error: { code?: unknown }) => refusals.push(error.code));
  };
  rt.harness.hooks.on(type, delegate, { agent: rt.root });
  await rt.ask('go');
  expect(refusals).toEqual(['CAPACITY']);
  expect(ends(rt.root.session)).toEqual([end]);
});

it('refuses a start that was made earlier when a hook begins to wait for it', async () => {
  const held = gate();
  await using rt = await testHarness({
    limits: { maxThreads: 1 },
    script: [{ hold: held, text: 'Done.' }],
  });
  rt.root.followup(message('go'));
  await held.arrived();
  const creation = rt.harness.agents.create({ owner: rt.root });
  creation.catch(() => {});
  await settled();
  rt.harness.hooks.on('agent/turn-stopping', () => creation.then(() => {}));
  held.open();
  await expect(creation).rejects.toMatchObject({ code: 'CAPACITY' });
  await rt.root.whenIdle();
  expect(ends(rt.root.session)).toEqual(['error CAPACITY']);
});
