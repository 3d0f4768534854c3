import { expect, it } from 'vitest';
import type { Agent, AgentLimits, ContentBlock } from '../../dist/src/index.js';
import { gate, scriptedModel } from '../../dist/src/testing.js';
import { until } from '../support/until.ts';
import { fact, fixture, realHarness, task } from './real.ts';
import type { RealHarness } from './real.ts';

const text = (words: string): ContentBlock[] => [{ type: 'text', text: words }];
const noSignal = (): AbortSignal => new AbortController().signal;

async function startChild(
  { harness, host }: RealHarness,
  prompt: string,
  limits: AgentLimits = {},
): Promise<Agent> {
  const { childId } = await harness.subagents.startContinuable({
    provider: 'spawn',
    label: 'worker',
    signal: noSignal(),
    request: { parent: host, prompt: text(prompt), limits },
  });
  return harness.agents.get(childId)!;
}
const tell = ({ harness, host }: RealHarness, child: Agent, words: string) =>
  harness.subagents.followup(host, child.id, text(words), {
    source: { kind: 'user' },
    signal: noSignal(),
  });

const ends = ({ session }: Agent): string[] =>
  session.events.flatMap((event) => {
    if (event.type !== 'turn/end') return [];
    const { reason } = event.data;
    return [reason.kind === 'aborted' ? `aborted ${reason.reason.kind}` : reason.kind];
  });
const answers = ({ session }: Agent): string[] =>
  session.events.flatMap((event) =>
    event.type === 'assistant/message'
      ? event.data.message.content.flatMap((block) => (block.type === 'text' ? [block.text] : []))
      : [],
  );

it('interrupts a child that spins: at once, and with a new thread after the grace', async () => {
  const spinning = fact();
  const rounds = fact();
  const options = { spinning: spinning.shared, shared: rounds.shared };
  await using real = await realHarness({
    tools: [{ module: fixture('tools.mjs'), options }],
    limits: { interruptGraceMs: 150 },
  });
  const { harness, host } = real;
  const child = await startChild(real, task('spin'));
  await spinning.reaches(1);
  await tell(real, child, 'waits');
  harness.subagents.interrupt(child.id, { kind: 'user', parentSessionId: host.id });
  // It returned, and the thread still spins.
  await rounds.reaches(rounds.value + 1);
  expect(child.status).toBe('running');
  await child.whenIdle();
  const after = rounds.value;
  expect(ends(child)).toEqual(['aborted user']);
  expect(harness.agents.get(child.id)).toBe(child);
  expect(child.inbox.nextTurn).toHaveLength(1);

  await tell(real, child, 'after it');
  await until(() => harness.agents.get(child.id) === undefined);
  expect(ends(child)).toEqual(['aborted user', 'completed', 'completed']);
  expect(answers(child)).toEqual(['waits', 'after it']);
  expect(rounds.value).toBe(after);
});

it('settles a child whose thread is gone, tells what waits, and runs that first afterwards', async () => {
  const held = gate();
  await using real = await realHarness({
    models: {
      obedient: scriptedModel([
        { hold: held, toolCalls: [{ name: 'exit', arguments: { code: 3 } }] },
        'B',
        'C',
        'D',
      ]),
    },
  });
  const { harness, host } = real;
  const told: string[] = [];
  harness.on('subagent/end', ({ stopReason }) => told.push(stopReason));
  const child = await startChild(real, 'A.');
  await held.arrived();
  await tell(real, child, 'B.');
  await tell(real, child, 'C.');
  held.open();
  await until(() => told.length === 1);
  expect(told).toEqual(['error']);
  expect(ends(child)).toEqual(['error']);
  const [notice] = host.inbox.nextTurn;
  expect(notice?.content[0]).toMatchObject({
    text: expect.stringMatching(/failed before it finished.* 2 messages wait for it still/),
  });
  await tell(real, child, 'D.');
  const again = harness.agents.get(child.id)!;
  await until(() => told.length === 2);
  expect(ends(again)).toEqual(['error', 'completed', 'completed', 'completed']);
  expect(answers(again)).toEqual(['B', 'C', 'D']);
});

it('holds a child to the limits of its start when it is brought back from the store', async () => {
  const spinning = fact();
  const options = { spinning: spinning.shared, shared: fact().shared };
  await using real = await realHarness({
    tools: [{ module: fixture('tools.mjs'), options }],
    limits: { interruptGraceMs: 150 },
  });
  const { harness } = real;
  const limits = { turnMs: 500, memoryMb: 64, outputBytes: 'unlimited' } as const;
  const { id } = await startChild(real, task('spin'), limits);
  await until(() => harness.agents.get(id) === undefined);
  await tell(real, { id } as Agent, task('spin'));
  const back = harness.agents.get(id)!;
  await spinning.reaches(2);
  await until(() => harness.agents.get(id) === undefined);
  expect(ends(back)).toEqual(['error', 'error']);
  const failures = back.session.events.filter(({ type }) => type === 'turn/end');
  const failure = { reason: { error: { code: 'LIMIT_EXCEEDED' } } };
  expect(failures.map(({ data }) => data)).toMatchObject([failure, failure]);
});
