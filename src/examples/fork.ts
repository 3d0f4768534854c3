/**
 * A child that knows what its parent knows. `fork` gives it the parent's finished turns; `spawn`
 * gives it nothing but its task. The child goes on by itself: the parent never sees its turns.
 *
 *     node dist/src/examples/fork.js
 */
import assert from 'node:assert/strict';
// In your program: 'subagent-runtime' and 'subagent-runtime/testing'.
import { createHarness, createUserMessage, fork, spawn, textOf } from '../index.ts';
import { scriptedModel } from '../testing.ts';

const QUESTION = 'Which colour do I like?';

// A model that remembers nothing but what it is shown.
const model = scriptedModel(({ messages }) => {
  const shown = messages.map(({ content }) => textOf(content));
  if (!shown.includes(QUESTION)) return 'Noted.';
  const colour = shown.map((text) => /^I like (\w+)/.exec(text)?.[1]).find((found) => found);
  return colour === undefined ? 'You never told me.' : `You like ${colour}.`;
});

await using harness = await createHarness({
  models: { script: model },
  defaultModel: { provider: 'script', model: 'demo' },
  providers: [spawn(), fork()],
});

// A parent with a conversation of its own, which has finished one turn.
await using root = await harness.agents.create();
root.agent.followup(createUserMessage('I like green best.'));
await root.agent.whenIdle();
const before = root.agent.session.events.length;

async function ask(provider: string): Promise<string> {
  const run = await harness.subagents.start(provider, {
    parent: root.agent,
    prompt: [{ type: 'text', text: QUESTION }],
    signal: AbortSignal.timeout(60_000),
  });
  try {
    const { stopReason, output } = await run.result;
    assert.equal(stopReason, 'completed');
    // Of the child's own turns: what it inherited is in its log, and no part of its result.
    return textOf(output);
  } finally {
    await run.dispose();
  }
}

const forked = await ask('fork');
const spawned = await ask('spawn');
console.log('fork:', forked);
console.log('spawn:', spawned);
assert.equal(forked, 'You like green.');
assert.equal(spawned, 'You never told me.');

// Nothing of it is in the parent's log.
assert.equal(root.agent.session.events.length, before);
