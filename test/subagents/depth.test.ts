import { describe, expect, it } from 'vitest';
import { ArgumentError, SubagentDepthError } from '../../protocol/errors.ts';
import { assertMaxDepth, childDepth, depthOf } from '../../src/subagents/depth.ts';
import { stubAgent } from './stubs.ts';

const agentAt = (recorded: number | undefined, given?: number) =>
  stubAgent('a', {
    header: recorded === undefined ? {} : { delegationDepth: recorded },
    options: given === undefined ? {} : { subagentDepth: given },
  });

describe('depth', () => {
  it.each([
    [undefined, undefined, 0],
    [2, undefined, 2],
    [undefined, 3, 3],
    [2, 1, 2],
    [1, 4, 4],
  ])('takes the greater of the recorded %s and the given %s', (recorded, given, depth) => {
    expect(depthOf(agentAt(recorded, given))).toBe(depth);
  });

  it('forbids every child with a cap of 0', () => {
    expect(() => childDepth(agentAt(undefined), 0)).toThrow('depth 1 exceeds maxDepth 0');
  });

  it('counts the recorded depth of a resumed agent without options', () => {
    expect(() => childDepth(agentAt(1), 1)).toThrow(
      expect.objectContaining({ code: 'DEPTH_EXCEEDED', attemptedDepth: 2, maxDepth: 1 }),
    );
  });

  it('does not let options lower the recorded depth', () => {
    expect(() => childDepth(agentAt(2, 1), 2)).toThrow(new SubagentDepthError(3, 2));
  });

  it('allows a child as deep as its cap', () => {
    expect(childDepth(agentAt(1), 2)).toBe(2);
    expect(childDepth(agentAt(7), undefined)).toBe(8);
  });

  it.each([NaN, 1.5, -1, -0, 2 ** 53])('refuses %s as the depth of an agent', (given) => {
    expect(() => childDepth(agentAt(undefined, given), undefined)).toThrow(ArgumentError);
  });

  it('refuses a child that would be deeper than can be counted', () => {
    expect(() => childDepth(agentAt(undefined, Number.MAX_SAFE_INTEGER), undefined)).toThrow(
      ArgumentError,
    );
  });

  it.each([NaN, 1.5, -1, -0, 2 ** 53, '3', null])('refuses %s as a cap', (cap) => {
    expect(() => assertMaxDepth(cap)).toThrow(ArgumentError);
  });
});
