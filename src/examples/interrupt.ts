/**
 * A child that is stopped in the middle of a turn while more waits for it: by its user, then by the
 * agent above it. What waits stays, and runs when the child is told something again.
 *
 *     node dist/src/examples/interrupt.js
 */
import assert from 'node:assert/strict';
// In your program: 'subagent-runtime' and 'subagent-runtime/testing'.
import { createHarness, textOf } from '../index.ts';
import { gate, scriptedModel } from '../testing.ts';

// The first two tasks are held in the middle of their answers.
const gates = new Map([
  ['First.', gate()],
  ['Second.', gate()],
]);
const model = scriptedModel(({ messages }) => {
  // A child is told more than its tasks: what its place is, too.
  const task = messages.map(({ content }) => textOf(content)).findLast(isTask) ?? '';
  const held = gates.get(task);
  return held === undefined ? `Done: ${task}` : { text: ['I begin', held, ' …'] };
});
const isTask = (text: string): boolean => /^\w+\.$/.test(text);

await using harness = await createHarness({
  models: { script: model },
  defaultModel: { provider: 'script', model: 'demo' },
});
const heard: string[] = [];
await using host = await harness.agents.createHost({
  onMessage: (batch) => void heard.push(...batch.map(({ content }) => textOf(content))),
});
const parent = host.agent;
const { subagents } = harness;
const signal = AbortSignal.timeout(60_000);

const { childId } = await subagents.startContinuable({
  provider: 'spawn',
  label: 'worker',
  request: { parent, prompt: [{ type: 'text', text: 'First.' }] },
  signal,
});
const child = harness.agents.get(childId);
assert(child !== undefined);
const tell = (text: string): Promise<unknown> =>
  subagents.followup(parent, childId, text, { source: { kind: 'user' }, signal });

// One turn each, in this order.
await gates.get('First.')?.arrived();
await tell('Second.');
await tell('Third.');

// On behalf of a user, who names the parent. It returns at once; the turn ends within the grace.
subagents.interrupt(childId, { kind: 'user', parentSessionId: parent.id });
await child.whenIdle();
assert.equal(child.inbox.nextTurn.length, 2);
// Not settled: it is about to be gone on with, so nobody is told anything.
assert.equal(harness.agents.get(childId), child);
assert.deepEqual(heard, []);

// The next message wakes it, behind what waited.
await tell('Fourth.');
await gates.get('Second.')?.arrived();
// On behalf of an agent above it, which has to be the live object itself.
subagents.interrupt(childId, { kind: 'ancestor', agent: parent });
await child.whenIdle();
assert.equal(child.inbox.nextTurn.length, 2);
assert.throws(() => subagents.interrupt(childId, { kind: 'ancestor', agent: child }), {
  code: 'UNAUTHORIZED',
});

const settled = new Promise((resolve) => harness.on('subagent/end', resolve));
await tell('Fifth.');
await settled;
await parent.whenIdle();

const { events } = await harness.sessions.inspect(childId);
const ends = events.flatMap(({ type, data }) => (type === 'turn/end' ? [data.reason] : []));
for (const end of ends) {
  console.log(end.kind === 'aborted' ? `aborted by ${end.reason.kind}` : end.kind);
}
assert.equal(ends.length, 5);
assert.equal(heard.length, 1);
assert.match(heard[0] ?? '', /has finished.*Done: Fifth\.$/s);
