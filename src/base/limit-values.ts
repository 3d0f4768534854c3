/** What a limit may be, whoever sets it: a caller, or the record of a child in a store. */
import { printed } from '../../protocol/error-record.ts';
import { ArgumentError } from '../../protocol/errors.ts';

/** A bound that may be taken away. */
export type Bound = number | 'unlimited';

/** A longer timer fires at once. */
export const MAX_DURATION_MS = 2 ** 31 - 1;
const MEMORY_MB = { least: 32, most: 4096 } as const;

/** Times that are waited for one after the other, as one that a timer can take. */
export const durationOf = (...times: readonly number[]): number =>
  Math.min(
    times.reduce((sum, ms) => sum + ms, 0),
    MAX_DURATION_MS,
  );

/** @throws {ArgumentError} what `check` throws for anything but `'unlimited'`. */
export function bound(value: Bound, check: (value: number) => number): Bound {
  return value === 'unlimited' ? value : check(value);
}

/** @throws {ArgumentError} outside 32 to 4096 MiB. */
export function memoryMb(value: Bound): Bound {
  if (value === 'unlimited') return value;
  if (!Number.isFinite(value) || value < MEMORY_MB.least || value > MEMORY_MB.most) {
    throw new ArgumentError(
      `The limit memoryMb takes ${MEMORY_MB.least} to ${MEMORY_MB.most} or 'unlimited', not ${printed(value)}.`,
    );
  }
  return value;
}

/** @throws {ArgumentError} unless the value is a positive number of milliseconds. */
export function duration(name: string, value: number): number {
  if (!Number.isFinite(value) || value <= 0 || value > MAX_DURATION_MS) {
    throw new ArgumentError(
      `The limit ${name} takes a positive number of milliseconds, not ${printed(value)}.`,
    );
  }
  return value;
}

/** @throws {ArgumentError} unless the value is a whole number of at least `least`. */
export function natural(name: string, value: number, least: number): number {
  if (!Number.isSafeInteger(value) || Object.is(value, -0) || value < least) {
    throw new ArgumentError(
      `"${name}" takes a whole number of at least ${least}, not ${printed(value)}.`,
    );
  }
  return value;
}

/** The limits of one agent, and how each is checked. @throws {ArgumentError} naming it */
export const AGENT_LIMIT_CHECKS = {
  memoryMb,
  turnMs: (ms: number) => duration('turnMs', ms),
  runMs: (ms: number) => duration('runMs', ms),
  cpuMs: (ms: number) => duration('cpuMs', ms),
  steps: (most: number) => natural('steps', most, 1),
  outputBytes: (most: Bound) => bound(most, (bytes) => natural('outputBytes', bytes, 1)),
  toolMs: (ms: number) => duration('toolMs', ms),
} as const;

/**
 * All that are given, each by its own check.
 * @throws {ArgumentError} naming the first that is none
 */
export function checkAgentLimits(limits: object): void {
  for (const [name, value] of Object.entries(limits)) {
    if (!Object.hasOwn(AGENT_LIMIT_CHECKS, name)) {
      throw new ArgumentError(`There is no limit "${name}" of one agent.`);
    }
    const check = AGENT_LIMIT_CHECKS[name as keyof typeof AGENT_LIMIT_CHECKS];
    if (value !== undefined) check(value as never);
  }
}
