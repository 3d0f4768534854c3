/**
 * A child that is watched from beside: its log is followed while it works, exported when it has
 * settled, taken in by another store under a new id, and removed.
 *
 *     node dist/src/examples/follow.js
 */
import assert from 'node:assert/strict';
// In your program: 'subagent-runtime' and 'subagent-runtime/testing'.
import { checkStore, createHarness, MemoryStore } from '../index.ts';
import { scriptedModel } from '../testing.ts';

const options = {
  models: { script: scriptedModel([{ text: ['Once ', 'upon ', 'a time.'] }]) },
  defaultModel: { provider: 'script', model: 'demo' },
};
await using harness = await createHarness({ ...options, store: new MemoryStore() });
const { agent: parent } = await harness.agents.create();
const { childId } = await harness.subagents.startContinuable({
  provider: 'spawn',
  label: 'tell a story',
  request: { parent, prompt: [{ type: 'text', text: 'Tell me a story.' }] },
  signal: AbortSignal.timeout(60_000),
});

// What is in its log already comes first, then what it says as it says it; the loop ends with the
// child's residency. A reader that dropped off goes on with `from`: the number after its last.
let said = '';
let next = 0;
for await (const { seq, type, data } of harness.sessions.follow(childId)) {
  assert.equal(seq, next++);
  if (type !== 'assistant/chunk' || data.chunk.type !== 'text-delta') continue;
  said += data.chunk.text;
  console.log(data.chunk.text.trim());
}
assert.equal(said, 'Once upon a time.');

// Another store, as far away as a file of lines can be carried.
const store = new MemoryStore();
await using archive = await createHarness({ ...options, store });
const names = await archive.sessions.importLines(harness.sessions.exportLines([childId]), {
  ids: 'new',
});
const copy = await archive.sessions.inspect(names.get(childId)!);
assert.equal(copy.events.length, next);
const found = await checkStore(store);
assert.deepEqual(
  found.map(({ severity, kind }) => `${severity} ${kind}`),
  ['note parent-missing'],
);

const removed = await harness.sessions.remove(childId);
assert.deepEqual(removed, [childId]);
await assert.rejects(harness.sessions.follow(childId).next(), { code: 'SESSION_NOT_FOUND' });
console.log(`kept ${copy.events.length === next ? 'all' : 'some'}, removed ${removed.length}`);
