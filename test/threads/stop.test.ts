import { expect, it } from 'vitest';
import { createUserMessage } from '../../dist/src/index.js';
import type { SessionEventOf } from '../../dist/src/index.js';
import { gate, scriptedModel } from '../../dist/src/testing.js';
import {
  fact,
  fixture,
  nextEvent,
  obedientModel,
  realHarness,
  task,
  textOfResult,
} from './real.ts';
import type { Fact, RealHarness } from './real.ts';
import type { HarnessOptions } from '../../dist/src/index.js';

/** Children can spin; `spinning` counts those that do, `rounds` goes up while any does. */
async function spinnable(
  limits: HarnessOptions['limits'],
): Promise<{ real: RealHarness; spinning: Fact; rounds: Fact }> {
  const spinning = fact();
  const rounds = fact();
  const options = { spinning: spinning.shared, shared: rounds.shared };
  const real = await realHarness({
    tools: [{ module: fixture('tools.mjs'), options }],
    ...(limits === undefined ? {} : { limits }),
  });
  return { real, spinning, rounds };
}

it('ends the thread of a child that does not obey its cancellation', async () => {
  const { real, spinning, rounds } = await spinnable({ interruptGraceMs: 150 });
  await using _ = real;
  const controller = new AbortController();
  const run = await real.start(task('spin'), { signal: controller.signal });
  await spinning.reaches(1);
  controller.abort();
  const result = await run.result;
  expect(result.stopReason).toBe('aborted');
  const { events } = run.localAgent!.session;
  expect(events.at(-1)?.data).toMatchObject({
    reason: { kind: 'aborted', reason: { kind: 'parent' } },
  });
  await run.dispose();
  const after = rounds.value;
  expect(textOfResult(await real.delegate('still here'))).toBe('still here');
  expect(rounds.value).toBe(after);
});

it('lets a child that obeys end its turn itself', async () => {
  const { real, spinning } = await spinnable({ interruptGraceMs: 60_000 });
  await using _ = real;
  const controller = new AbortController();
  const run = await real.start(task('spin_politely'), { signal: controller.signal });
  await spinning.reaches(1);
  controller.abort();
  expect((await run.result).stopReason).toBe('aborted');
  expect(run.localAgent!.session.events.map(({ type }) => type).slice(-3)).toEqual([
    'tool/result',
    'step/end',
    'turn/end',
  ]);
  await run.dispose();
});

it('gives an agent a new thread after an interrupt it ignored, and runs what waited', async () => {
  const { real, spinning } = await spinnable({ interruptGraceMs: 150 });
  await using _ = real;
  const { agent } = await real.harness.agents.create();
  agent.followup(createUserMessage(task('spin')));
  agent.followup(createUserMessage('waits'));
  await spinning.reaches(1);
  const ended = nextEvent(real.harness, agent, 'turn/end');
  agent.cancel({ kind: 'user' }, { keepInbox: true });
  // A later cause changes nothing: the first one is in the log.
  agent.cancel({ kind: 'parent' }, { keepInbox: true });
  expect((await ended).data).toMatchObject({
    reason: { kind: 'aborted', reason: { kind: 'user' } },
  });
  await agent.whenIdle();
  expect(agent.inbox.nextTurn).toHaveLength(1);

  agent.followup(createUserMessage(task('thread')));
  await agent.whenIdle();
  const answers = agent.session.events.flatMap((event) =>
    event.type === 'assistant/message' ? event.data.message.content : [],
  );
  expect(answers.slice(1)).toMatchObject([
    { text: 'waits' },
    { type: 'tool-call', name: 'thread' },
    { text: expect.stringMatching(/^\d+$/) },
  ]);
});

it('is rid of spinning children within the stop grace, and nothing happens afterwards', async () => {
  const { real, spinning, rounds } = await spinnable({ stopGraceMs: 200 });
  const told: string[] = [];
  try {
    const runs = await Promise.all([1, 2, 3].map(() => real.start(task('spin'))));
    await spinning.reaches(3);
    const began = performance.now();
    await real.harness.dispose();
    // The grace, and a second for the end by force; more than that only on a machine under load.
    expect(performance.now() - began).toBeLessThan(5_000);
    real.harness.on('session/event', ({ event }) => told.push(event.type));
    const after = rounds.value;
    const logs = runs.map(({ localAgent }) => localAgent!.session.seq);
    for (const run of runs) {
      expect((await run.result).stopReason).toBe('aborted');
      await run.dispose();
    }
    await new Promise((resolve) => setImmediate(resolve));
    expect(rounds.value).toBe(after);
    expect(runs.map(({ localAgent }) => localAgent!.session.seq)).toEqual(logs);
    expect(told).toEqual([]);
    expect(real.harness.agents.list()).toEqual([]);
  } finally {
    await real.harness.dispose();
  }
});

it('stops a model in the thread in the middle of its stream, and keeps what was seen', async () => {
  await using real = await realHarness({
    models: { obedient: obedientModel(), inThread: { module: fixture('model.mjs') } },
    limits: { interruptGraceMs: 60_000 },
  });
  const { agent } = await real.harness.agents.create({
    agentOptions: { provider: 'inThread', model: 'm' },
  });
  agent.followup(createUserMessage('stream for ever'));
  await nextEvent(real.harness, agent, 'assistant/chunk');
  await nextEvent(real.harness, agent, 'assistant/chunk');
  agent.cancel({ kind: 'user' });
  await agent.whenIdle();
  const { events } = agent.session;
  const message = events.find(({ type }) => type === 'assistant/message');
  const { data } = message as SessionEventOf<'assistant/message'>;
  expect(data.interrupted).toBe(true);
  expect(data.message.content).toMatchObject([{ text: expect.stringMatching(/^(more )+$/) }]);
  expect(events.at(-1)?.data).toMatchObject({ reason: { kind: 'aborted' } });
});

it('stops a stream of main in the tick of the abort, while the thread is busy', async () => {
  const held = gate();
  const signals: AbortSignal[] = [];
  await using real = await realHarness({
    models: {
      obedient: scriptedModel([
        (_request, { signal }) => {
          signals.push(signal);
          return { text: ['seen ', held, 'never'] };
        },
      ]),
    },
  });
  const controller = new AbortController();
  const run = await real.start('speak', { signal: controller.signal });
  await held.arrived();
  expect(signals[0]?.aborted).toBe(false);
  controller.abort();
  expect(signals[0]?.aborted).toBe(true);
  const result = await run.result;
  expect(result.stopReason).toBe('aborted');
  expect(textOfResult(result)).toBe('seen ');
  await run.dispose();
});

it('refuses what waits for a thread when the harness is disposed', async () => {
  const { real, spinning } = await spinnable({ maxThreads: 1, stopGraceMs: 100 });
  const first = await real.start(task('spin'));
  await spinning.reaches(1);
  const waiting = real.start('never').catch((error: unknown) => error);
  await real.harness.dispose();
  expect(await waiting).toMatchObject({ code: 'DRAINING' });
  expect((await first.result).stopReason).toBe('aborted');
});
