import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import type { AgentLimits } from '../../src/agent/agent-host.ts';
import {
  MAX_DURATION_MS,
  duration,
  durationOf,
  memoryMb,
  natural,
} from '../../src/base/limit-values.ts';
import { systemClock } from '../../src/base/clock.ts';
import type { Clock } from '../../src/base/clock.ts';
import { createHarness } from '../../src/harness.ts';
import { resolveLimits, turnBounds } from '../../src/worker-host/limits.ts';
import { testHarness } from '../support/harness.ts';
import { SilentStore } from '../support/silent-store.ts';

describe('limits', () => {
  it('have defaults', () => {
    expect(resolveLimits()).toEqual({
      maxDepth: 3,
      maxThreads: 64,
      maxLiveChildren: undefined,
      maxTotalChildren: undefined,
      maxPending: 10_000,
      memoryMb: 256,
      turnMs: 600_000,
      runMs: undefined,
      cpuMs: undefined,
      steps: undefined,
      outputBytes: 33_554_432,
      toolMs: undefined,
      unresponsiveMs: 120_000,
      restarts: undefined,
      stopGraceMs: 2_000,
      interruptGraceMs: 5_000,
      startMs: 10_000,
      execArgv: [],
    });
  });

  it('are taken as they are given', () => {
    const given = {
      maxDepth: 0,
      maxThreads: 1,
      maxLiveChildren: 0,
      maxTotalChildren: 5,
      maxPending: 'unlimited',
      memoryMb: 'unlimited',
      turnMs: 1,
      runMs: 2,
      cpuMs: 3,
      steps: 4,
      outputBytes: 'unlimited',
      toolMs: 5,
      unresponsiveMs: 'unlimited',
      restarts: { max: 1, withinMs: 6 },
      stopGraceMs: 2,
      interruptGraceMs: 3,
      startMs: 4,
      execArgv: ['--permission'],
    } as const;
    expect(resolveLimits(given)).toEqual(given);
  });

  it.each([
    [{ maxDepth: -1 }, 'maxDepth'],
    [{ maxDepth: 1.5 }, 'maxDepth'],
    [{ maxThreads: 0 }, 'maxThreads'],
    [{ memoryMb: 31 }, 'memoryMb'],
    [{ memoryMb: 4097 }, 'memoryMb'],
    [{ memoryMb: Number.NaN }, 'memoryMb'],
    [{ turnMs: 0 }, 'turnMs'],
    [{ stopGraceMs: -1 }, 'stopGraceMs'],
    [{ interruptGraceMs: Number.POSITIVE_INFINITY }, 'interruptGraceMs'],
    [{ startMs: 2 ** 31 }, 'startMs'],
    [{ maxLiveChildren: -1 }, 'maxLiveChildren'],
    [{ maxTotalChildren: 0.5 }, 'maxTotalChildren'],
    [{ maxPending: 0 }, 'maxPending'],
    [{ runMs: -5 }, 'runMs'],
    [{ cpuMs: 0 }, 'cpuMs'],
    [{ steps: 0 }, 'steps'],
    [{ outputBytes: 0 }, 'outputBytes'],
    [{ toolMs: Number.NaN }, 'toolMs'],
    [{ unresponsiveMs: 0 }, 'unresponsiveMs'],
    [{ restarts: { max: 0, withinMs: 1 } }, 'restarts.max'],
    [{ restarts: { max: 1, withinMs: 0 } }, 'restarts.withinMs'],
    [{ restarts: { max: 1, withinMs: 1, every: 2 } as never }, 'every'],
    [{ turnsMs: 5 } as object, 'turnsMs'],
  ])('are refused, by name, when they are %j', (given, name) => {
    expect(() => resolveLimits(given)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', message: expect.stringContaining(name) }),
    );
  });

  it('take the ends of their ranges', () => {
    expect([memoryMb(32), memoryMb(4096), duration('d', 2 ** 31 - 1), natural('n', 0, 0)]).toEqual([
      32,
      4096,
      2 ** 31 - 1,
      0,
    ]);
    expect(() => natural('n', -0, 0)).toThrow('n');
  });
});

describe('options that change when they are read', () => {
  /** Says the first of these when it is read first, and the second from then on. */
  const changing = (name: string, first: unknown, then: unknown): object => {
    let reads = 0;
    return Object.defineProperty({}, name, {
      enumerable: true,
      get: () => (reads++ === 0 ? first : then),
    });
  };

  it.each([
    ['restarts', { max: 1, withinMs: 5 }, undefined],
    ['execArgv', ['--permission'], 7],
    ['turnMs', 5, 'never'],
  ])('count as they were read first: %s', (name, first, then) => {
    expect(resolveLimits(changing(name, first, then))).toMatchObject({ [name]: first });
  });

  it.each([
    ['restarts', changing('max', 1, 2)],
    ['restarts', null],
    ['restarts', 7],
    ['restarts', new Proxy({}, { ownKeys: () => Reflect.ownKeys(null as never) })],
    ['execArgv', [7]],
    ['execArgv', new Proxy([], { get: () => Reflect.ownKeys(null as never) })],
  ])('or are refused: %s', (name, value) => {
    expect(() => resolveLimits({ [name]: value })).toThrow(ArgumentError);
  });

  it('count so for a harness, too', async () => {
    const given = changing('store', ':memory:', '');
    const harness = await createHarness(given);
    await harness.dispose();
  });
});

describe('steps of one agent', () => {
  it('are no more unlimited than those of a harness', async () => {
    const limits = { steps: 'unlimited' } as object;
    expect(() => resolveLimits(limits)).toThrow('"steps" takes a whole number');
    await using harness = await createHarness({ workers: { warm: 0 } });
    await expect(harness.agents.create({ limits })).rejects.toThrow('"steps" takes a whole number');
  });

  it('and times are numbers; memory and output may be taken away', () => {
    const own: AgentLimits = { memoryMb: 'unlimited', outputBytes: 'unlimited' };
    expect(turnBounds(resolveLimits(), own, true)).toMatchObject({ outputBytes: undefined });
  });
});

describe('times that are waited for one after the other', () => {
  it('are together no longer than a timer can be', () => {
    expect(durationOf(2_000, 3_000)).toBe(5_000);
    expect(durationOf(MAX_DURATION_MS, 3_000)).toBe(MAX_DURATION_MS);
  });

  it('leave an end its patience, however long that is', async () => {
    const store = new SilentStore();
    const limits = { stopGraceMs: MAX_DURATION_MS, interruptGraceMs: MAX_DURATION_MS };
    const waited: number[] = [];
    const clock: Clock = {
      ...systemClock,
      after(ms, run, keepsAlive) {
        waited.push(ms);
        return systemClock.after(ms, run, keepsAlive);
      },
    };
    const rt = await testHarness({ store, limits, clock, script: ['Done.'] });
    await rt.ask('go');
    const silent = store.silence('release');
    const disposal = rt.harness.dispose();
    await silent.arrived();
    silent.open();
    await disposal;
    expect(waited).toContain(MAX_DURATION_MS);
    expect(waited.filter((ms) => ms > MAX_DURATION_MS)).toEqual([]);
  });
});
