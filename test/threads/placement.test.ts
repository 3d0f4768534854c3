import { expect, it } from 'vitest';
import { createUserMessage, defineTool, textOf } from '../../dist/src/index.js';
import type { Agent, ModelRequest, SessionEventOf } from '../../dist/src/index.js';
import { scriptedModel } from '../../dist/src/testing.js';
import { fixture, lastText, obedientModel, realHarness, task, textOfResult } from './real.ts';

it('runs a function on main, with the agent that called it', async () => {
  const callers: Agent[] = [];
  await using real = await realHarness({
    tools: [
      defineTool<Agent>({
        name: 'who',
        description: 'Who calls.',
        parameters: { type: 'object' },
        execute(_args, { agent }) {
          callers.push(agent);
          return agent.id;
        },
      }),
    ],
  });
  const [one, two] = await Promise.all([real.start(task('who')), real.start(task('who'))]);
  expect(textOfResult(await one.result)).toBe(one.id);
  expect(textOfResult(await two.result)).toBe(two.id);
  expect(new Set(callers)).toEqual(new Set([one.localAgent, two.localAgent]));
  expect(callers.every((agent) => real.harness.agents.get(agent.id) === agent)).toBe(true);
  await Promise.all([one.dispose(), two.dispose()]);
});

it.each([
  ['a function on main', 'fail_here'],
  ["a module in the child's thread", 'fail'],
])('shows a model the same error, with its code, of %s', async (_, tool) => {
  await using real = await realHarness({
    tools: [
      { module: fixture('tools.mjs') },
      defineTool<Agent>({
        name: 'fail_here',
        description: 'Fails.',
        parameters: { type: 'object' },
        execute({ code }) {
          throw Object.assign(new Error('No such row.'), { code });
        },
      }),
    ],
  });
  const run = await real.start(task(tool, { code: 'E_ROW' }));
  const result = await run.result;
  expect(textOfResult(result)).toMatch(/No such row\./);
  const event = run.localAgent!.session.events.find(({ type }) => type === 'tool/result');
  const { error, message } = (event as SessionEventOf<'tool/result'>).data;
  expect(error).toEqual({ name: 'Error', code: 'E_ROW' });
  expect(message.content[0]).toMatchObject({ isError: true });
  expect(lastText({ messages: [message] } as unknown as ModelRequest)).toBe(textOfResult(result));
  await run.dispose();
});

it('runs a model given as a module inside the thread, and keeps what it streamed', async () => {
  await using real = await realHarness({
    models: {
      obedient: obedientModel(),
      inThread: { module: fixture('model.mjs'), options: { greeting: 'Hello' } },
    },
  });
  const run = await real.start('one two three', {
    agentOptions: { provider: 'inThread', model: 'tiny' },
  });
  const result = await run.result;
  expect(result.stopReason).toBe('completed');
  expect(textOfResult(result)).toMatch(/^Hello from thread \d+: one two three/);
  const { events } = run.localAgent!.session;
  const deltas = events.flatMap((event) =>
    event.type === 'assistant/chunk' && event.data.chunk.type === 'text-delta'
      ? [event.data.chunk.text]
      : [],
  );
  expect(deltas.length).toBeGreaterThan(3);
  expect(deltas.join('')).toBe(textOfResult(result));
  expect(events.find(({ type }) => type === 'assistant/message')?.data).toMatchObject({
    message: { source: { kind: 'model', provider: 'inThread', model: 'tiny' } },
    usage: { inputTokens: 3, outputTokens: 7 },
  });
  await run.dispose();
});

it('shows a model in the thread its whole history, also when the thread is a new one', async () => {
  await using real = await realHarness({
    models: { obedient: obedientModel(), inThread: { module: fixture('model.mjs') } },
    limits: { maxThreads: 1 },
  });
  const root = await real.harness.agents.create({
    agentOptions: { provider: 'inThread', model: 'tiny' },
  });
  const ask = async (text: string): Promise<string> => {
    root.agent.followup(createUserMessage(text));
    await root.agent.whenIdle();
    const event = root.agent.session.events.findLast(({ type }) => type === 'assistant/message');
    return textOf((event as SessionEventOf<'assistant/message'>).data.message.content);
  };
  expect(await ask('a')).toMatch(/: a \[1\]$/);
  expect(await ask('b')).toMatch(/: b \[3\]$/);
  // The only thread goes to a child; the root comes back in another, which knows nothing yet.
  expect(textOfResult(await real.delegate('a child'))).toBe('a child');
  expect(await ask('c')).toMatch(/: c \[5\]$/);
  expect(await ask('d')).toMatch(/: d \[7\]$/);
  await root.dispose();
});

it('asks a model object of the AI SDK on main', async () => {
  const asked: unknown[] = [];
  const parts = [
    { type: 'stream-start', warnings: [] },
    { type: 'text-start', id: '1' },
    { type: 'text-delta', id: '1', delta: 'From ' },
    { type: 'text-delta', id: '1', delta: 'the SDK.' },
    { type: 'text-end', id: '1' },
    {
      type: 'finish',
      finishReason: 'stop',
      usage: { inputTokens: 4, outputTokens: 2, totalTokens: 6 },
    },
  ];
  const model = {
    specificationVersion: 'v2' as const,
    provider: 'sdk',
    modelId: 'sdk-1',
    doStream(options: unknown) {
      asked.push(options);
      const stream = new ReadableStream({
        start(controller) {
          for (const part of parts) controller.enqueue(part);
          controller.close();
        },
      });
      return Promise.resolve({ stream });
    },
  };
  await using real = await realHarness({ models: { obedient: obedientModel(), sdk: model } });
  const result = await real.delegate('Hi', { agentOptions: { provider: 'sdk', model: 'sdk-1' } });
  expect(textOfResult(result)).toBe('From the SDK.');
  expect(asked).toHaveLength(1);
});

it('keeps 10 000 parts of a stream in order, with no gap, while main goes on', async () => {
  const count = 10_000;
  await using real = await realHarness({
    models: {
      obedient: obedientModel(),
      inThread: { module: fixture('model.mjs') },
      onMain: scriptedModel([{ text: Array.from({ length: count }, (_, i) => `${i} `) }]),
    },
  });
  let turns = 0;
  let longest = 0;
  let last = performance.now();
  let isOver = false;
  const watch = (): void => {
    turns++;
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
    if (!isOver) setImmediate(watch);
  };
  watch();
  const expected = Array.from({ length: count }, (_, i) => `${i} `);
  for (const provider of ['inThread', 'onMain']) {
    const run = await real.start(`count to ${count}`, { agentOptions: { provider, model: 'm' } });
    const seen: number[] = [];
    const texts: string[] = [];
    real.harness.on(
      'session/event',
      ({ event }) => {
        seen.push(event.seq);
        if (event.type !== 'assistant/chunk' || event.data.chunk.type !== 'text-delta') return;
        texts.push(event.data.chunk.text);
      },
      { agent: run.localAgent! },
    );
    const result = await run.result;
    expect(result.stopReason).toBe('completed');
    const { events } = run.localAgent!.session;
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index));
    const streamed = events.flatMap((event) =>
      event.type === 'assistant/chunk' && event.data.chunk.type === 'text-delta'
        ? [event.data.chunk.text]
        : [],
    );
    expect(streamed).toEqual(expected);
    expect(texts).toEqual(expected.slice(expected.length - texts.length));
    expect(seen).toEqual(seen.map((_, index) => seen[0]! + index));
    expect(textOfResult(result)).toBe(expected.join(''));
    await run.dispose();
  }
  isOver = true;
  expect(turns).toBeGreaterThan(20);
  // Loosely: a machine under load is no failure, a main thread that is held for the stream is.
  expect(longest).toBeLessThan(2_000);
});
