/** A module that keeps its state, when threads are scarce. */
import { expect, it } from 'vitest';
import { subagentTool } from '../../src/subagent-tools/subagent.ts';
import { createUserMessage as message } from '../../src/agent/agent.ts';
import { gate } from '../../src/base/gate.ts';
import { testHarness } from '../support/harness.ts';
import type { TestHarness, TestHarnessOptions } from '../support/harness.ts';
import { settled } from '../support/until.ts';
import { ends } from './agent-words.ts';

const counts = { toolCalls: [{ name: 'count', arguments: {} }] };

/** Every thread that loads it begins to count anew. */
function counting(keepsState: boolean): Pick<TestHarnessOptions, 'tools' | 'threads'> {
  return {
    tools: [{ module: new URL('file:///count.mjs'), keepsState }],
    threads: {
      async import() {
        let count = 0;
        const tool = {
          name: 'count',
          description: 'Counts.',
          parameters: { type: 'object' },
          execute: () => ++count,
        };
        return { default: tool };
      },
    },
  };
}

const counted = (rt: TestHarness): unknown[] =>
  rt.root.session.events.flatMap(({ type, data }) => {
    const [block] = type === 'tool/result' ? data.message.content : [];
    return block?.type === 'tool-result' ? block.content : [];
  });
const said = (...numbers: number[]): object[] =>
  numbers.map((count) => ({ type: 'text', text: `${count}` }));

it('keeps the thread of its idle agent: a start that needs it is refused', async () => {
  await using rt = await testHarness({
    limits: { maxThreads: 1 },
    ...counting(true),
    script: [counts, 'A.', counts, 'B.'],
  });
  await rt.ask('one');
  const creation = rt.harness.agents.create();
  await expect(creation).rejects.toMatchObject({
    code: 'CAPACITY',
    message: expect.stringContaining('keep the state of a module'),
  });
  await rt.ask('two');
  expect(counted(rt)).toEqual(said(1, 2));
  expect(rt.threads.all).toHaveLength(1);
});

it('loses it with the thread when it does not say so', async () => {
  await using rt = await testHarness({
    limits: { maxThreads: 1 },
    ...counting(false),
    script: [counts, 'A.', counts, 'B.'],
  });
  await rt.ask('one');
  await rt.harness.agents.create();
  await rt.ask('two');
  expect(counted(rt)).toEqual(said(1, 1));
});

it('lets a start wait for an agent that is busy, and gives it the place of one that ends', async () => {
  const held = gate();
  await using rt = await testHarness({
    limits: { maxThreads: 1 },
    ...counting(true),
    script: [{ hold: held, text: 'A.' }],
  });
  rt.root.followup(message('one'));
  await held.arrived();
  const creation = rt.harness.agents.create();
  await settled();
  const disposal = rt.rootHandle.dispose();
  await expect(creation).resolves.toBeDefined();
  await disposal;
  held.open();
});

it('does not make a parent wait for ever that has a child, beside an idle agent', async () => {
  await using rt = await testHarness({
    limits: { maxThreads: 2 },
    ...counting(true),
    script: [
      { toolCalls: [{ name: 'subagent', arguments: { description: 'Work', prompt: 'Work.' } }] },
      'Alone, then.',
    ],
  });
  rt.harness.tools.register(subagentTool(rt.harness.subagents, { provider: 'spawn' }));
  await rt.harness.agents.create();
  await rt.ask('go');
  const codes = rt.root.session.events.flatMap(({ type, data }) =>
    type === 'tool/result' ? [data.error?.code] : [],
  );
  expect(codes).toEqual(['CAPACITY']);
  expect(ends(rt.root.session)).toEqual(['completed']);
});
