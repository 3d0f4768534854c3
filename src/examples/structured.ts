/**
 * A result of a given shape. The child hands in a value with a tool that it alone has; a value
 * that does not fit goes back to it, and it corrects that in the same turn. A child that hands
 * in nothing has failed, whatever it wrote.
 *
 *     node dist/src/examples/structured.js
 */
import assert from 'node:assert/strict';
// In your program: 'subagent-runtime' and 'subagent-runtime/testing'.
import { createHarness, Scope } from '../index.ts';
import type { ObjectJsonSchema, SubagentResult } from '../index.ts';
import { scriptedModel } from '../testing.ts';

const CITY: ObjectJsonSchema = {
  type: 'object',
  properties: {
    name: { type: 'string', description: 'Its name in English.' },
    inhabitants: { type: 'integer' },
  },
  required: ['name', 'inhabitants'],
  additionalProperties: false,
};

const handIn = (value: object): { name: string; arguments: object } => ({
  name: 'structured_output',
  arguments: value,
});
const model = scriptedModel([
  // The first child: a number as a text, which does not fit …
  { toolCalls: [handIn({ name: 'Paris', inhabitants: 'two million' })] },
  // … and, when it has read why, a number.
  { toolCalls: [handIn({ name: 'Paris', inhabitants: 2_100_000 })] },
  // The second child only talks.
  'Paris has about two million inhabitants.',
]);

await using harness = await createHarness({
  models: { script: model },
  defaultModel: { provider: 'script', model: 'demo' },
});
await using host = await harness.agents.createHost();
// A scope owns what it is given, and lets go of it in reverse order when it is disposed.
await using runs = new Scope();

async function describe(city: string): Promise<SubagentResult> {
  const run = await harness.subagents.start('spawn', {
    parent: host.agent,
    prompt: [{ type: 'text', text: `Describe ${city}.` }],
    outputSchema: CITY,
    signal: AbortSignal.timeout(60_000),
  });
  runs.add(() => run.dispose());
  return run.result;
}

const good = await describe('Paris');
console.log(good.stopReason, good.structured);
assert.equal(good.stopReason, 'completed');
assert.deepEqual(good.structured, { name: 'Paris', inhabitants: 2_100_000 });
// One turn, two requests: the refused value, and the corrected one. No third, to say goodbye.
assert.equal(model.requests.length, 2);

const failed = await describe('Paris');
console.log(failed.stopReason, failed.diagnostic);
assert.equal(failed.stopReason, 'error');
assert.equal(failed.structured, undefined);
assert.match(failed.diagnostic ?? '', /^NO_STRUCTURED_OUTPUT: /);
