/** The order in which every model of a harness is shown its tools. */
import { expect, it } from 'vitest';
import type { ToolDefinition } from '../../protocol/tool.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { buildHarness } from '../../src/harness.ts';
import { spawning } from '../subagents/spawning.ts';

const tool = (name: string): ToolDefinition => ({
  name,
  description: name,
  parameters: { type: 'object' },
  execute: () => name,
});
const tools = ['a', 'b', 'c', 'd'].map(tool);

it('is that of createHarness, also for children, those of a later tool among the rest', async () => {
  await using t = await spawning({
    tools,
    toolOrder: ['d', '*', 'not there', 'a'],
    script: ['The parent.', 'The child.'],
  });
  t.harness.tools.register(tool('bb'));
  await t.ask('Hello.');
  await t.run();
  const shown = t.model.requests.map(({ tools: specs }) => specs?.map(({ name }) => name));
  expect(shown).toEqual([
    ['d', 'b', 'bb', 'c', 'a'],
    ['d', 'b', 'bb', 'c', 'a'],
  ]);
});

it('is by name when nothing is said', async () => {
  await using t = await spawning({ tools: tools.toReversed(), script: ['Done.'] });
  await t.ask('Hello.');
  expect(t.model.requests[0]!.tools?.map(({ name }) => name)).toEqual(['a', 'b', 'c', 'd']);
});

it.each<[unknown]>([['a'], [['a', 'a']], [[1]], [null]])('cannot be %j', async (toolOrder) => {
  await expect(buildHarness({ toolOrder: toolOrder as never })).rejects.toThrow(ArgumentError);
});
