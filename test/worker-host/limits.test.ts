import { describe, expect, it } from 'vitest';
import { duration, memoryMb, natural } from '../../src/base/limit-values.ts';
import { resolveLimits } from '../../src/worker-host/limits.ts';

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
