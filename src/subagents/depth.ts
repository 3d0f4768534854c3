import { ArgumentError, SubagentDepthError } from '../../protocol/errors.ts';
import type { Agent } from '../agent/agent.ts';

/**
 * How many delegations lie above an agent. The recorded depth is the floor: options given at
 * run time may deepen it and can never lower it.
 *
 * @throws {ArgumentError} when the depth given at run time is no non-negative safe integer.
 */
export function depthOf(agent: Pick<Agent, 'options' | 'session'>): number {
  const given = agent.options.subagentDepth ?? 0;
  if (!isDepth(given)) {
    throw new ArgumentError(
      `subagentDepth must be a non-negative safe integer, not ${say(given)}.`,
    );
  }
  return Math.max(agent.session.header.delegationDepth ?? 0, given);
}

/**
 * The depth of a child of `parent`, within an absolute cap: 0 forbids every child.
 *
 * @throws {ArgumentError} when that depth cannot be counted.
 * @throws {SubagentDepthError} when it is beyond the cap.
 */
export function childDepth(
  parent: Pick<Agent, 'options' | 'session'>,
  maxDepth: number | undefined,
): number {
  const depth = depthOf(parent) + 1;
  if (!Number.isSafeInteger(depth)) {
    throw new ArgumentError('A child would be deeper than can be counted.');
  }
  if (maxDepth !== undefined && depth > maxDepth) throw new SubagentDepthError(depth, maxDepth);
  return depth;
}

/** @throws {ArgumentError} unless it is a non-negative safe integer. */
export function assertMaxDepth(value: unknown): asserts value is number {
  if (isDepth(value)) return;
  throw new ArgumentError(`maxDepth must be a non-negative safe integer, not ${say(value)}.`);
}

function isDepth(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0 && !Object.is(value, -0);
}

function say(value: unknown): string {
  return Object.is(value, -0) ? '-0' : typeof value === 'number' ? String(value) : typeof value;
}
