/**
 * Who is there: a child that goes on, one with a single task, and one with a child of its own. They
 * are listed while they work, and again after a restart, when nobody has been woken.
 *
 *     node dist/src/examples/listing.js
 */
import assert from 'node:assert/strict';
// In your program: 'subagent-runtime' and 'subagent-runtime/testing'.
import { createHarness, MemoryStore, SessionId, subagentTool, textOf } from '../index.ts';
import type { Agent, Harness } from '../index.ts';
import { gate, scriptedModel } from '../testing.ts';

// Stays where it is while harnesses come and go. In your program: the path of a file.
const store = new MemoryStore();
const parentId = SessionId('server');

const held = gate();
const model = scriptedModel(({ messages }) => {
  const said = messages.map(({ content }) => textOf(content)).join(' ');
  if (said.includes('slowly')) return { text: ['I am ', held, 'done.'] };
  const hasDelegated = messages.some(({ content }) => content[0]?.type === 'tool-result');
  if (!said.includes('delegate') || hasDelegated) return 'I am done.';
  const task = { description: 'a part of it', prompt: 'Do your part.' };
  return { toolCalls: [{ name: 'subagent', arguments: task }] };
});

async function open(): Promise<{ harness: Harness; parent: Agent }> {
  const harness = await createHarness({
    store,
    models: { script: model },
    defaultModel: { provider: 'script', model: 'demo' },
  });
  harness.tools.register(subagentTool(harness.subagents, { provider: 'spawn' }));
  return { harness, parent: (await harness.agents.createHost({ sessionId: parentId })).agent };
}

/** What a person, or a model, would be shown. */
async function show({ subagents, agents }: Harness): Promise<readonly string[]> {
  const rows = await subagents.listDescendants(parentId);
  const lines = rows.map((row) => {
    if (row.kind === 'diagnostic') return `${row.id} ${row.reason}`;
    // A row says that its session is live; what its agent does right now, the agent says. Without
    // one the child is ready: `followup` brings it back.
    const status = agents.get(row.id)?.status ?? 'ready';
    return `${row.depth} ${row.label}: ${row.mode === 'one-shot' ? row.activity : status}`;
  });
  return lines.toSorted();
}

{
  const { harness, parent } = await open();
  const signal = AbortSignal.timeout(60_000);
  const request = (text: string) => ({ parent, prompt: [{ type: 'text', text } as const] });
  const start = (label: string, text: string) =>
    harness.subagents.startContinuable({
      provider: 'spawn',
      label,
      request: request(text),
      signal,
    });

  const settled = new Promise((resolve) => harness.on('subagent/end', resolve, { agent: parent }));
  await start('manager', 'Please delegate.');
  await settled;
  const task = { ...request('One thing.'), label: 'errand', signal };
  const errand = await harness.subagents.start('spawn', task);
  await errand.result;
  await errand.dispose();
  await start('writer', 'Write slowly.');
  await held.arrived();

  const lines = await show(harness);
  console.log(lines.join('\n'));
  assert.deepEqual(lines, [
    '1 errand: inactive',
    '1 manager: ready',
    '1 writer: running',
    '2 a part of it: inactive',
  ]);
  // Only its own, and which of them have children.
  const children = await harness.subagents.listChildren(parentId);
  assert.equal(children.length, 3);
  const parentOfOne = children.find((row) => row.kind === 'child' && row.hasChildren);
  assert.equal(parentOfOne?.kind === 'child' && parentOfOne.label, 'manager');
  await harness.dispose();
}

const { harness } = await open();
const lines = await show(harness);
console.log(lines.join('\n'));
assert.deepEqual(lines, [
  '1 errand: inactive',
  '1 manager: ready',
  '1 writer: ready',
  '2 a part of it: inactive',
]);
await harness.dispose();
