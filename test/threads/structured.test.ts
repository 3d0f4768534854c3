import { describe, expect, it } from 'vitest';
import { scriptedModel } from '../../dist/src/testing.js';
import type { ScriptedStep } from '../../dist/src/testing.js';
import { realHarness, task } from './real.ts';

const outputSchema = {
  type: 'object',
  properties: { count: { type: 'integer' } },
  required: ['count'],
} as const;
const handsIn = (count: unknown) => ({ name: 'structured_output', arguments: { count } });
const counting = (...steps: ScriptedStep[]) =>
  realHarness({ models: { obedient: scriptedModel([...steps, 'Never asked for.']) } });

describe('a child in a thread with an output schema', () => {
  it('gives the value that it hands in, and ends with that call', async () => {
    await using real = await counting({ toolCalls: [handsIn('two')] }, { toolCalls: [handsIn(2)] });
    const result = await real.delegate('Count.', { outputSchema });
    expect(result).toEqual({
      output: [expect.objectContaining({ type: 'tool-call', name: 'structured_output' })],
      structured: { count: 2 },
      stopReason: 'completed',
    });
  });

  it('gives none that a hook blocks, and its model goes on', async () => {
    await using real = await counting({ toolCalls: [handsIn(1)] }, { text: 'Then not.' });
    real.harness.hooks.on('tool/post-execute', () => ({ kind: 'block', reason: 'No.' }));
    const result = await real.delegate('Count.', { outputSchema });
    expect(result).toMatchObject({ output: [{ text: 'Then not.' }], stopReason: 'error' });
    expect(result).not.toHaveProperty('structured');
  });
});

it('shows its model what a hook makes of the result of a module in the thread', async () => {
  await using real = await realHarness();
  const seen: unknown[] = [];
  real.harness.hooks.on('tool/pre-execute', ({ name }) => void seen.push(name));
  real.harness.hooks.on('tool/post-execute', ({ result }) => {
    seen.push(result.value);
    return { kind: 'accept', content: [{ type: 'text', text: 'cut' }] };
  });
  const result = await real.delegate(task('square', { n: 3 }));
  expect(result.output).toEqual([{ type: 'text', text: 'cut' }]);
  expect(seen).toEqual(['square', expect.anything()]);
});
