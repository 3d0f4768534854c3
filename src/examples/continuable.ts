/**
 * A child that goes on. It settles, is told more, and comes back from the store: first in the same
 * process, then after a restart. Each time its parent is told what became of it.
 *
 *     node dist/src/examples/continuable.js
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
// In your program: 'subagent-runtime' and 'subagent-runtime/testing'.
import { createHarness, textOf } from '../index.ts';
import type { Agent, Harness, SessionId } from '../index.ts';
import { scriptedModel } from '../testing.ts';

// The child adds up every number that it was ever told; its parent takes note of what it hears.
const model = scriptedModel(({ messages }) => {
  const numbers = messages.flatMap(
    ({ content }) => /^Add (\d+)\.$/.exec(textOf(content))?.[1] ?? [],
  );
  if (numbers.length === 0) return 'Noted.';
  return `The sum is ${numbers.reduce((sum, number) => sum + Number(number), 0)}.`;
});

const folder = mkdtempSync(join(tmpdir(), 'continuable-'));
const open = (): Promise<Harness> =>
  createHarness({
    store: join(folder, 'sessions.db'),
    models: { script: model },
    defaultModel: { provider: 'script', model: 'demo' },
  });

/** Has the parent told, and has it read what it is told when the child has settled. */
async function hear(harness: Harness, parent: Agent, tell: () => Promise<unknown>): Promise<void> {
  const settled = new Promise((resolve) => harness.on('subagent/end', resolve, { agent: parent }));
  await tell();
  await settled;
  await parent.whenIdle();
  const notice = parent.session.deriveMessages().findLast(({ role }) => role === 'user');
  assert(notice?.role === 'user' && notice.source.kind === 'subagent-settled');
  assert.equal(notice.content.length, 3);
  console.log(textOf(notice.content.slice(2)));
}

const signal = AbortSignal.timeout(60_000);
const source = { kind: 'user' } as const;
let parentId: SessionId;
let childId!: SessionId;
try {
  {
    await using harness = await open();
    const { agent: parent } = await harness.agents.create();
    parentId = parent.id;
    await hear(harness, parent, async () => {
      // Resolves when the task is accepted and kept. Nothing of it has run by then.
      ({ childId } = await harness.subagents.startContinuable({
        provider: 'spawn',
        label: 'sum',
        request: { parent, prompt: [{ type: 'text', text: 'Add 3.' }] },
        signal,
      }));
    });
    // Settled: no agent, no thread. Its session waits in the store, and nobody has to hold it.
    assert.equal(harness.agents.get(childId), undefined);
    await hear(harness, parent, () =>
      harness.subagents.followup(parent, childId, 'Add 4.', { source, signal }),
    );
  }
  // Another process as far as anybody can tell: the same file, and nothing else.
  await using harness = await open();
  const { agent: parent } = await harness.agents.resume(parentId);
  await hear(harness, parent, () =>
    harness.subagents.followup(parent, childId, 'Add 5.', { source, signal }),
  );
  const { events } = await harness.sessions.inspect(childId);
  assert.equal(events.filter(({ type }) => type === 'turn/end').length, 3);
  assert.equal(events.filter(({ type }) => type === 'subagent/descriptor').length, 1);
} finally {
  rmSync(folder, { recursive: true });
}
