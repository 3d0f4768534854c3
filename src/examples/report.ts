/**
 * A child that tells its parent something before it is done, with a tool that the deployment gives
 * to every child that goes on. Its reports are heard before its end is.
 *
 *     node dist/src/examples/report.js
 */
import assert from 'node:assert/strict';
// In your program: 'subagent-runtime' and 'subagent-runtime/testing'.
import { createHarness, defineTool, textOf } from '../index.ts';
import type { Agent } from '../index.ts';
import { scriptedModel } from '../testing.ts';

const report = (text: string, isUrgent: boolean) => ({
  toolCalls: [{ name: 'report', arguments: { text, isUrgent } }],
});
const model = scriptedModel([
  report('I have begun.', false),
  report('The disk is nearly full.', true),
  'All is counted.',
]);

await using harness = await createHarness({
  models: { script: model },
  defaultModel: { provider: 'script', model: 'demo' },
});
const { subagents } = harness;

// From now on every continuable child is built with it, fresh or brought back from the store.
const withdraw = subagents.registerContinuableSetup(({ tools }) =>
  tools.register(
    defineTool<Agent>({
      name: 'report',
      description: 'Tells your parent something before you are done.',
      parameters: {
        type: 'object',
        properties: { text: { type: 'string' }, isUrgent: { type: 'boolean' } },
        required: ['text', 'isUrgent'],
      },
      async execute(args: { text: string; isUrgent: boolean }, { agent, signal }) {
        // The caller is the child itself: it can report as nobody else, and to nobody else.
        const delivery = args.isUrgent ? 'wakeup' : 'quiet';
        await subagents.reportFrom(agent, args.text, { delivery, signal });
        return 'Your parent will read it.';
      },
    }),
  ),
);

await using host = await harness.agents.createHost({
  onMessage(batch) {
    for (const { source, content } of batch) console.log(source.kind, textOf(content.slice(-1)));
  },
});
const parent = host.agent;
const settled = new Promise((resolve) => harness.on('subagent/end', resolve));
const { childId } = await subagents.startContinuable({
  provider: 'spawn',
  label: 'counter',
  request: { parent, prompt: [{ type: 'text', text: 'Count the files.' }] },
  signal: AbortSignal.timeout(60_000),
});
await settled;
await parent.whenIdle();

// The parent's log has what it was told, in order. A quiet report woke nobody: it came with the next.
const { events } = await harness.sessions.inspect(parent.id);
const told = events.flatMap((event) => (event.type === 'user/message' ? event.data : []));
assert.deepEqual(
  told.map(({ source }) => source.kind),
  ['subagent-report', 'subagent-report', 'subagent-settled'],
);
const [first] = told;
assert.equal(first?.source.kind === 'subagent-report' && first.source.senderSessionId, childId);
assert.equal(
  textOf(first?.content ?? []),
  `Your subagent "counter" (id ${childId}) reports:\nI have begun.`,
);
withdraw();
