import type { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { defineTool, subagentTool } from '../../dist/src/index.js';
import type { Agent, HarnessOptions, ModelRequest, SubagentRun } from '../../dist/src/index.js';
import { gate, scriptedModel } from '../../dist/src/testing.js';
import type { ScriptedAnswer } from '../../dist/src/testing.js';
import { until } from '../support/until.ts';
import { fact, fixture, lastText, obedientModel, realHarness, task, textOfResult } from './real.ts';
import type { RealHarness } from './real.ts';

const MAX_THREADS = 8;
const numbers = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

/** How many threads there are, and were at most, from now on. */
function watchThreads(): { readonly most: number; readonly live: number } & Disposable {
  let live = 0;
  let most = 0;
  const note = (worker: Worker): void => {
    most = Math.max(most, ++live);
    worker.once('exit', () => live--);
  };
  process.on('worker', note);
  return {
    get live() {
      return live;
    },
    get most() {
      return most;
    },
    [Symbol.dispose]: () => void process.off('worker', note),
  };
}

/** Told a number: keeps it on main, counts and squares it in its thread, and tells all of it. */
function working({ messages }: ModelRequest): ScriptedAnswer {
  const n = Number(messages[0]!.content.map((block) => ('text' in block ? block.text : '')).join());
  const results = messages.filter(({ source }) => source.kind === 'tool');
  if (results.length === 0) {
    return {
      toolCalls: [
        { name: 'keep', arguments: { n } },
        { name: 'count', arguments: {} },
        { name: 'square', arguments: { n } },
      ],
    };
  }
  const texts = results.map((message) =>
    lastText({ messages: [message] } as never as ModelRequest),
  );
  return texts.join(' ');
}

describe('32 children at once, with 8 threads', () => {
  it('have each its own result, its own tools and its own effects', async () => {
    const kept = new Map<string, unknown>();
    const published: number[] = [];
    using threads = watchThreads();
    await using real = await realHarness({
      models: { obedient: scriptedModel(working) },
      limits: { maxThreads: MAX_THREADS },
    });
    real.harness.tools.register(
      defineTool<Agent>({
        name: 'keep',
        description: 'Keeps.',
        parameters: { type: 'object' },
        execute: ({ n }, { agent }) => void kept.set(agent.id, n),
      }),
    );
    const ids = await Promise.all(
      numbers(32).map(async (n) => {
        const run = await real.start(`${n}`);
        published.push(n);
        const result = await run.result;
        expect(result.stopReason).toBe('completed');
        expect(textOfResult(result)).toBe(`(no output) {"calls":1,"seen":1} ${n * n}`);
        await run.dispose();
        return run.id;
      }),
    );
    expect([...kept].sort()).toEqual(ids.map((id, n): [string, number] => [id, n]).sort());
    expect(threads.most).toBeLessThanOrEqual(MAX_THREADS);
    expect(real.harness.agents.list()).toEqual([real.host]);
    // Only those that hold a thread of their own can be overtaken.
    for (const [at, n] of published.entries()) {
      const overtaken = numbers(n).filter((earlier) => published.indexOf(earlier) > at);
      expect(overtaken.length).toBeLessThan(MAX_THREADS);
    }
  });

  it('wait where they can be cancelled, one by one, and nothing is left of those', async () => {
    const busy = gate();
    using threads = watchThreads();
    await using real = await realHarness({
      models: { obedient: scriptedModel(() => ({ hold: busy, text: 'done' })) },
      limits: { maxThreads: MAX_THREADS },
    });
    const told: string[] = [];
    real.harness.on('subagent/start', ({ id }) => told.push(id));
    const running = await Promise.all(numbers(MAX_THREADS).map(() => real.start('work')));
    await busy.arrived(MAX_THREADS);
    const waiting = numbers(24).map((n) => {
      const controller = new AbortController();
      const start = real.start(`${n}`, { signal: controller.signal });
      return { n, controller, end: start.catch((error: unknown) => error) };
    });
    const given = waiting.filter(({ n }) => n % 3 !== 0);
    for (const { n, controller } of given) {
      controller.abort(new Error(`Number ${n} is not needed.`));
    }
    for (const { n, end } of given) {
      expect(await end).toMatchObject({ message: `Number ${n} is not needed.` });
    }
    expect(told).toHaveLength(MAX_THREADS);
    expect(real.harness.agents.list()).toHaveLength(1 + MAX_THREADS);
    expect(real.harness.sessions.list()).toHaveLength(1 + MAX_THREADS);
    expect(threads.most).toBe(MAX_THREADS);

    busy.open();
    const rest = waiting.filter(({ n }) => n % 3 === 0).map(({ end }) => end);
    const finish = async (starting: Promise<unknown>): Promise<string> => {
      const run = (await starting) as SubagentRun;
      const result = await run.result;
      await run.dispose();
      return textOfResult(result);
    };
    const ends = [...running.map((run) => Promise.resolve(run)), ...rest].map(finish);
    expect(await Promise.all(ends)).toEqual(ends.map(() => 'done'));
    expect(told).toHaveLength(MAX_THREADS + rest.length);
    expect(threads.most).toBe(MAX_THREADS);
    await until(() => threads.live === 0);
  });

  it('are served in the order of their starts', async () => {
    await using real = await realHarness({ limits: { maxThreads: 1 } });
    const published: number[] = [];
    await Promise.all(
      numbers(6).map(async (n) => {
        const run = await real.start(`${n}`);
        published.push(n);
        await run.result;
        await run.dispose();
      }),
    );
    expect(published).toEqual(numbers(6));
  });
});

it('is rid of a child that spins, when its run is disposed, and its siblings go on', async () => {
  const spinning = fact();
  const rounds = fact();
  const held = gate();
  const options = { spinning: spinning.shared, shared: rounds.shared };
  await using real = await realHarness({
    models: { obedient: obedientModel(), held: scriptedModel([{ text: ['So ', held, 'far'] }]) },
    tools: [{ module: fixture('tools.mjs'), options }],
    limits: { stopGraceMs: 200, interruptGraceMs: 60_000 },
  });
  const agentOptions = { provider: 'held', model: 'test' };
  const streams = await real.start('speak', { agentOptions });
  const polite = await real.start(task('spin_politely'));
  const run = await real.start(task('spin'));
  await held.arrived();
  await spinning.reaches(2);
  const began = performance.now();
  await run.dispose();
  // The grace, and the end by force; more than that only on a machine under load.
  expect(performance.now() - began).toBeLessThan(5_000);
  expect((await run.result).stopReason).toBe('aborted');
  const { events, seq } = run.localAgent!.session;
  expect(events.at(-1)).toMatchObject({
    type: 'turn/end',
    data: { reason: { kind: 'aborted', reason: { kind: 'parent' } } },
  });
  const after = rounds.value;

  held.open();
  expect(textOfResult(await streams.result)).toBe('So far');
  expect(polite.localAgent!.status).toBe('running');
  await Promise.all([streams.dispose(), polite.dispose()]);
  expect(rounds.value).toBe(after);
  expect(run.localAgent!.session.seq).toBe(seq);
});

/** Children of `forger` have a thread that claims this of itself; the rest have an honest one. */
async function forging(
  claims: object,
  limits: HarnessOptions['limits'] = {},
): Promise<RealHarness> {
  process.env['FORGED'] = JSON.stringify(claims);
  try {
    const real = await realHarness({
      models: { obedient: scriptedModel(() => ({ hold: gate() })) },
      workers: { warm: 0, entry: fixture('forging-entry.mjs'), env: ['FORGED'] },
      tools: [],
      limits,
    });
    real.harness.tools.register(subagentTool(real.harness.subagents, { provider: 'spawn' }));
    return real;
  } finally {
    delete process.env['FORGED'];
  }
}

const lineage = { depth: 0, delegationDepth: 0, parent: 'root', parentSession: 'root' };

describe('a thread that claims to stand elsewhere', () => {
  it('has children as deep as it is itself, and below itself, whatever it was born with', async () => {
    await using real = await forging({}, { maxDepth: 3 });
    const headers: unknown[] = [];
    real.harness.on('agent/created', ({ agent }) => headers.push(agent.session.header));
    const result = await real.delegate('delegate');
    expect(result.stopReason).toBe('completed');
    expect(headers).toMatchObject([
      { delegationDepth: 1, parentSession: real.host.id },
      { delegationDepth: 2, parentSession: (headers[0] as { id: string }).id },
      { delegationDepth: 3, parentSession: (headers[1] as { id: string }).id },
    ]);
  });

  it.each([
    ['in the arguments of the tool', { arguments: lineage }, 'INVALID_ARGS'],
    ['nowhere, and has no depth left', {}, 'DEPTH_EXCEEDED'],
  ])('%s is refused the delegation', async (_, claims, code) => {
    await using real = await forging(claims, { maxDepth: 1 });
    const run = await real.start('delegate');
    expect((await run.result).stopReason).toBe('completed');
    const codes = run.localAgent!.session.events.flatMap((event) =>
      event.type === 'tool/result' ? [event.data.error?.code] : [],
    );
    expect(codes).toEqual([code]);
    await run.dispose();
  });

  it.each([
    ['in the call of a tool', { callTool: lineage }],
    ['beside the arguments of a call', { message: { agent: 'root' } }],
    ['in a claim', { claim: [lineage] }],
    ['in a model request', { openModel: lineage }],
    ['in the source of a message', { source: lineage }],
    ['in the end of a turn', { turnEnd: lineage }],
  ])('%s is ended for it, and delegates nothing', async (_, claims) => {
    await using real = await forging(claims, { maxDepth: 1 });
    const result = await real.delegate('delegate');
    expect(result.stopReason).toBe('error');
    expect(result.diagnostic).toMatch(/^PROTOCOL_VIOLATION: /);
    expect(real.harness.agents.list()).toEqual([real.host]);
  });

  it('as it says that it is ready is no child at all', async () => {
    await using real = await forging({ ready: lineage });
    const failure = await real.start('delegate').catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'PROTOCOL_VIOLATION' });
    expect(real.harness.agents.list()).toEqual([real.host]);
  });
});
