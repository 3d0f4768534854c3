import type { Worker } from 'node:worker_threads';
import { describe, expect, it } from 'vitest';
import { createUserMessage, subagentTool } from '../../dist/src/index.js';
import { gate, scriptedModel } from '../../dist/src/testing.js';
import type { HarnessOptions, ModelRequest } from '../../dist/src/index.js';
import type { ScriptedAnswer } from '../../dist/src/testing.js';
import { lastText, obedientModel, realHarness, task, textOfResult } from './real.ts';
import { until } from '../support/until.ts';
import type { RealHarness } from './real.ts';

it(
  'answers 100 delegations, 32 in flight, each with its own result',
  { timeout: 240_000 },
  async () => {
    await using real = await realHarness({ workers: { warm: 2 } });
    const results = new Map<number, string>();
    const numbers = Array.from({ length: 100 }, (_, n) => n).values();
    let inFlight = 0;
    let most = 0;
    const lane = async (): Promise<void> => {
      for (const n of numbers) {
        most = Math.max(most, ++inFlight);
        const result = await real.delegate(task('square', { n }));
        results.set(n, `${result.stopReason}: ${textOfResult(result)}`);
        inFlight--;
      }
    };
    await Promise.all(Array.from({ length: 32 }, lane));
    expect(most).toBe(32);
    const expected = Array.from({ length: 100 }, (_, n): [number, string] => [
      n,
      `completed: ${n * n}`,
    ]);
    expect([...results].sort(([a], [b]) => a - b)).toEqual(expected);
    expect(real.harness.agents.list()).toEqual([real.host]);
  },
);

/** Told `nest n`, delegates `nest n-1` and repeats its answer; `nest 0` is the bottom. */
function nesting(request: ModelRequest): ScriptedAnswer {
  const text = lastText(request);
  const left = /^nest (\d+)$/.exec(text)?.[1];
  if (left === undefined) return `(${text})`;
  if (left === '0') return 'bottom';
  const prompt = `nest ${Number(left) - 1}`;
  return { toolCalls: [{ name: 'subagent', arguments: { description: prompt, prompt } }] };
}

async function nestingHarness(limits: HarnessOptions['limits'] = {}): Promise<RealHarness> {
  const real = await realHarness({
    models: { obedient: scriptedModel(nesting) },
    tools: [],
    limits,
  });
  real.harness.tools.register(subagentTool(real.harness.subagents, { provider: 'spawn' }));
  return real;
}

describe('nested delegation', () => {
  it('works to depth 3, each child in a thread of its own', async () => {
    await using real = await nestingHarness();
    const depths: (number | undefined)[] = [];
    real.harness.on('agent/created', ({ agent }) =>
      depths.push(agent.session.header.delegationDepth),
    );
    const result = await real.delegate('nest 2');
    expect(textOfResult(result)).toBe('((bottom))');
    expect(depths).toEqual([1, 2, 3]);
  });

  it('is refused at depth 4, in words that the model can act on', async () => {
    await using real = await nestingHarness();
    const result = await real.delegate('nest 3');
    expect(result.stopReason).toBe('completed');
    expect(textOfResult(result)).toMatch(/^\(\(\(.*depth 4, and 3 is the limit/);
  });

  it('is refused with CAPACITY when every thread waits for a child of its own', async () => {
    await using real = await nestingHarness({ maxThreads: 2 });
    const codes: (string | undefined)[] = [];
    real.harness.on('session/event', ({ event }) => {
      if (event.type === 'tool/result') codes.push(event.data.error?.code);
    });
    const result = await real.delegate('nest 2');
    expect(result.stopReason).toBe('completed');
    expect(textOfResult(result)).toMatch(/No thread is free: all 2 are held/);
    expect(codes).toEqual(['CAPACITY', undefined]);
  });

  it('waits for a thread while anybody else may still give one up', async () => {
    const busy = gate();
    await using real = await realHarness({
      models: { obedient: obedientModel(), busy: scriptedModel(() => ({ hold: busy })) },
      limits: { maxThreads: 1 },
    });
    const root = await real.harness.agents.create({
      agentOptions: { provider: 'busy', model: 'test' },
    });
    root.agent.followup(createUserMessage('work'));
    await busy.arrived();
    const waiting = real.delegate('at last');
    busy.open();
    await root.agent.whenIdle();
    // The root is idle and still lives: its thread is taken.
    expect(textOfResult(await waiting)).toBe('at last');
    await root.dispose();
  });
});

describe('a thread', () => {
  it('never serves two agents', async () => {
    await using real = await realHarness({ workers: { warm: 2 }, limits: { maxThreads: 2 } });
    const seen = [];
    for (let i = 0; i < 6; i++) seen.push(textOfResult(await real.delegate(task('count'))));
    expect(seen).toEqual(Array.from({ length: 6 }, () => '{"calls":1,"seen":1}'));
  });

  it('that is kept warm serves the next start, and another takes its place', async () => {
    const made: Worker[] = [];
    const note = (worker: Worker): void => void made.push(worker);
    process.on('worker', note);
    try {
      await using real = await realHarness({ workers: { warm: 1 } });
      await until(() => made.length === 1);
      const warm = made[0]!;
      await new Promise((resolve) => warm.once('message', resolve));
      const run = await real.start(task('thread'));
      expect(textOfResult(await run.result)).toBe(`${warm.threadId}`);
      await until(() => made.length === 2);
      await run.dispose();
      expect(warm.threadId).toBe(-1);
    } finally {
      process.off('worker', note);
    }
  });
});

describe('a child sees', () => {
  it('no environment unless it is named', async () => {
    process.env['CHILD_MAY_SEE'] = 'yes';
    process.env['CHILD_MAY_NOT_SEE'] = 'no';
    try {
      await using bare = await realHarness();
      expect(textOfResult(await bare.delegate(task('environment')))).toBe('[]');
      await using named = await realHarness({
        workers: { warm: 0, env: ['CHILD_MAY_SEE', 'NOT_SET_AT_ALL'] },
      });
      expect(textOfResult(await named.delegate(task('environment')))).toBe('["CHILD_MAY_SEE=yes"]');
    } finally {
      delete process.env['CHILD_MAY_SEE'];
      delete process.env['CHILD_MAY_NOT_SEE'];
    }
  });
});
