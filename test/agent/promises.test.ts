/** Where nobody waits, a promise is refused, and its failure is nobody's. */
import { expect, it } from 'vitest';
import { testHarness } from '../support/harness.ts';
import type { TestHarness } from '../support/harness.ts';
import { watchUnhandled } from '../support/unhandled.ts';
import { settled } from '../support/until.ts';

const parameters = { type: 'object' };
const fails = (): Promise<never> => Promise.reject(new Error('Nobody waits for this.'));
const calls = { toolCalls: [{ name: 'note', arguments: {} }] };

const unhandled = watchUnhandled();
const end = ({ root }: TestHarness): unknown => root.session.events.at(-1)?.data;

it('a classifier that gives one says no', async () => {
  let running = 0;
  let most = 0;
  await using rt = await testHarness({
    tools: [
      {
        name: 'note',
        description: 'Notes.',
        parameters,
        isConcurrencySafe: fails as never,
        async execute() {
          most = Math.max(most, ++running);
          await settled();
          running--;
        },
      },
    ],
    script: [{ toolCalls: [...calls.toolCalls, ...calls.toolCalls] }, 'Done.'],
  });
  await rt.ask('go');
  await settled();
  expect([most, unhandled]).toEqual([1, []]);
});

it('what shows a result and gives one is no use', async () => {
  await using rt = await testHarness({
    tools: [
      {
        name: 'note',
        description: 'Notes.',
        parameters,
        output: { schema: {}, render: fails as never },
        execute: () => 'Noted.',
      },
    ],
    script: [calls, 'Done.'],
  });
  await rt.ask('go');
  await settled();
  const result = rt.root.session.events.find(({ type }) => type === 'tool/result');
  expect(result?.data).toMatchObject({ error: { code: 'INVALID_TOOL_OUTPUT' } });
  expect(unhandled).toEqual([]);
});

it.each(['section', 'context', 'variable'] as const)(
  'a %s of the prompt that gives one fails the turn',
  async (part) => {
    await using rt = await testHarness({ script: ['Never.'] });
    const { prompt } = rt.harness;
    if (part === 'section') prompt.section({ name: 'p', order: 1, text: fails as never });
    if (part === 'context') prompt.context({ name: 'p', order: 1, text: fails as never });
    if (part === 'variable') {
      prompt.variable('p', fails as never);
      prompt.section({ name: 'p', order: 1, text: '{{p}}' });
    }
    await rt.ask('go');
    await settled();
    expect(end(rt)).toMatchObject({
      reason: { kind: 'error', error: { message: expect.stringContaining('gave a promise') } },
    });
    expect([rt.model.requests, unhandled]).toEqual([[], []]);
  },
);

it('a setup that gives one makes no agent', async () => {
  await using rt = await testHarness();
  await expect(rt.harness.agents.create({ setup: fails as never })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
  await settled();
  expect(rt.harness.agents.list()).toEqual([rt.root]);
  expect(unhandled).toEqual([]);
});
