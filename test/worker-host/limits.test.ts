import { describe, expect, it } from 'vitest';
import { duration, memoryMb, natural, resolveLimits } from '../../src/worker-host/limits.ts';

describe('limits', () => {
  it('have defaults', () => {
    expect(resolveLimits()).toEqual({
      maxDepth: 3,
      maxThreads: 64,
      memoryMb: 256,
      turnMs: 600_000,
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
      memoryMb: 'unlimited',
      turnMs: 1,
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
