/**
 * One task, one result: your program starts a child, reads what it found, and lets go of it. A
 * second child is stopped halfway.
 *
 *     node dist/src/examples/one-shot.js
 */
import assert from 'node:assert/strict';
// In your program: 'subagent-runtime' and 'subagent-runtime/testing'.
import { createHarness, textOf } from '../index.ts';
import type { ContentBlock } from '../index.ts';
import { gate, scriptedModel } from '../testing.ts';

// A model that plays a part, so that this runs without a key. Take openaiCompatible({ … }) or an
// AI SDK model instead, and nothing else changes.
const held = gate();
const model = scriptedModel(({ messages }) => {
  const isStory = messages.some(({ content }) => textOf(content).includes('story'));
  // The story stops at the gate, after its first words.
  return isStory ? { text: ['Once upon a time', held, ' …'] } : 'Paris.';
});

// `await using` disposes at the end, whatever happens: no thread and no timer is left.
await using harness = await createHarness({
  models: { script: model },
  defaultModel: { provider: 'script', model: 'demo' },
});

// Someone has to be the parent. A host is an agent whose loop is your own code.
await using host = await harness.agents.createHost();
const ask = (text: string): ContentBlock[] => [{ type: 'text', text }];

// `start` resolves when the child is there, in a thread of its own. From now on it is yours.
const run = await harness.subagents.start('spawn', {
  label: 'capital of France',
  parent: host.agent,
  prompt: ask('What is the capital of France?'),
  signal: AbortSignal.timeout(60_000),
});
try {
  // Never rejects for what the child did: a failure is a stop reason, with a diagnostic.
  const { stopReason, output, diagnostic } = await run.result;
  console.log(stopReason, diagnostic ?? textOf(output));
  assert.equal(stopReason, 'completed');
  assert.equal(textOf(output), 'Paris.');
} finally {
  // Always. When it resolves, nothing of the child happens any more.
  await run.dispose();
}
assert.equal(harness.agents.get(run.id), undefined);

// The signal stops the work at any time. What was written until then is kept.
const stop = new AbortController();
const story = await harness.subagents.start('spawn', {
  parent: host.agent,
  prompt: ask('Tell me a long story.'),
  signal: stop.signal,
});
await held.arrived();
stop.abort();
const { stopReason, output } = await story.result;
await story.dispose();
console.log(stopReason, textOf(output));
assert.equal(stopReason, 'aborted');
assert.equal(textOf(output), 'Once upon a time');
