import { availableParallelism } from 'node:os';
import { printed } from '../../protocol/error-record.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { assertOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';

/** Limits of a harness, as a caller may set them. Times are milliseconds. */
export interface HarnessLimits {
  /** How deep delegation may go: 0 forbids it. Default 3. */
  readonly maxDepth?: number;
  /** Threads that may exist at once, warm ones included. Default 64. */
  readonly maxThreads?: number;
  /**
   * Heap of one agent's thread in MiB, 32 to 4096. Default 256. A limit that the process's own
   * flags would make void refuses the start; `'unlimited'` accepts whatever Node gives.
   */
  readonly memoryMb?: number | 'unlimited';
  /** Wall time of one turn of a child, waiting included. Default 600 000. */
  readonly turnMs?: number;
  /** From the request to stop an agent to the end of its thread by force. Default 2 000. */
  readonly stopGraceMs?: number;
  /**
   * From an interrupt to the end of a thread that does not obey it. Default 5 000. One that waits
   * for a tool on main, such as for a child, goes on waiting while that is being stopped.
   */
  readonly interruptGraceMs?: number;
  /** From the construction of a thread to its first sign of life. Default 10 000. */
  readonly startMs?: number;
  /** Flags for the threads, such as `--permission`. Default none. */
  readonly execArgv?: readonly string[];
}

export interface ResolvedLimits {
  readonly maxDepth: number;
  readonly maxThreads: number;
  readonly memoryMb: number | 'unlimited';
  readonly turnMs: number;
  readonly stopGraceMs: number;
  readonly interruptGraceMs: number;
  readonly startMs: number;
  readonly execArgv: readonly string[];
}

/** What distinguishes one thread from another before it has an agent. */
export interface ThreadLimits {
  readonly memoryMb: number | 'unlimited';
}

/** A longer timer fires at once. */
export const MAX_DURATION_MS = 2 ** 31 - 1;
const MEMORY_MB = { least: 32, most: 4096 } as const;

/** @throws {ArgumentError} naming the limit and what it takes. */
export function resolveLimits(limits: HarnessLimits = {}): ResolvedLimits {
  assertOptions('limits', limits, {
    maxDepth: 'any',
    maxThreads: 'any',
    memoryMb: 'any',
    turnMs: 'any',
    stopGraceMs: 'any',
    interruptGraceMs: 'any',
    startMs: 'any',
    execArgv: 'list',
  } satisfies Record<keyof HarnessLimits, OptionKind>);
  // Defaults stand in for what is absent, and for nothing else.
  const {
    maxDepth = 3,
    maxThreads = 64,
    memoryMb: mb = 256,
    turnMs = 600_000,
    stopGraceMs = 2_000,
    interruptGraceMs = 5_000,
    startMs = 10_000,
    execArgv = [],
  } = limits;
  return {
    maxDepth: natural('maxDepth', maxDepth, 0),
    maxThreads: natural('maxThreads', maxThreads, 1),
    memoryMb: memoryMb(mb),
    turnMs: duration('turnMs', turnMs),
    stopGraceMs: duration('stopGraceMs', stopGraceMs),
    interruptGraceMs: duration('interruptGraceMs', interruptGraceMs),
    startMs: duration('startMs', startMs),
    execArgv: [...execArgv],
  };
}

/** @throws {ArgumentError} outside 32 to 4096 MiB. */
export function memoryMb(value: number | 'unlimited'): number | 'unlimited' {
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

/** Threads that may be starting at once: more would only make main wait longer for each. */
export const STARTING_AT_ONCE = Math.max(1, availableParallelism());
