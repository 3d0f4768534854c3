import { availableParallelism } from 'node:os';
import { ArgumentError } from '../../protocol/errors.ts';
import { readList, readOptions } from '../base/assert-options.ts';
import type { OptionKind } from '../base/assert-options.ts';
import { AGENT_LIMIT_CHECKS, bound, duration, memoryMb, natural } from '../base/limit-values.ts';
import type { Bound } from '../base/limit-values.ts';
import type { AgentLimits } from '../agent/agent-host.ts';

/** How often a thread may die under an agent that then goes on in another one. */
export interface RestartIntensity {
  /** Deaths that are followed by another thread, within the period; the next one settles the agent. */
  readonly max: number;
  /** The period, in milliseconds. */
  readonly withinMs: number;
}

/** Limits of a harness, as a caller may set them. Times are milliseconds of wall time. */
export interface HarnessLimits {
  /** How deep delegation may go: 0 forbids it. Default 3. */
  readonly maxDepth?: number;
  /**
   * Threads that may exist at once, warm ones included. Default 64. What the machine bears (its
   * memory, memory maps and descriptors) can be less, and then counts.
   */
  readonly maxThreads?: number;
  /** Descendants of one root that may live at once, however deep. Default none. */
  readonly maxLiveChildren?: number;
  /** Descendants of one root that may ever be made while it lives. Default none. */
  readonly maxTotalChildren?: number;
  /** Messages that may wait in one agent's inbox. Default 10 000. */
  readonly maxPending?: Bound;
  /**
   * Memory of one agent's thread in MiB, 32 to 4096: heap, buffers and what else it makes the
   * process grow by. Default 256. It is warned of at three quarters (`thread/warning`), and ended
   * with `WORKER_OUT_OF_MEMORY` when it has half as much again (at most 512 MiB) and 64 MiB: what
   * the engine has not collected yet counts, too. A limit that the process's own flags would make
   * void refuses the start with `MEMORY_LIMIT_VOID`; `'unlimited'` accepts whatever Node gives.
   * Either way a process that has 85 % of the memory it may have ends its thread with the most.
   */
  readonly memoryMb?: Bound;
  /** Wall time of one turn of a child, waiting included. Default 600 000. */
  readonly turnMs?: number;
  /** Wall time of one run of a child, from its making or its resume on. Default none. */
  readonly runMs?: number;
  /** Processor time of the thread of a child in one turn. Default none. */
  readonly cpuMs?: number;
  /** Steps, each with a model request, of one turn of a child. Default none. */
  readonly steps?: number;
  /** What one turn of a child may add to its log, in bytes. Default 33 554 432. */
  readonly outputBytes?: Bound;
  /** Time of one tool call of a child, also one that waits for a child of its own. Default none. */
  readonly toolMs?: number;
  /** For how long the thread of an open turn may not turn its event loop. Default 120 000. */
  readonly unresponsiveMs?: Bound;
  /** Default none: an agent whose thread dies in a turn settles. */
  readonly restarts?: RestartIntensity;
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

/** Every limit, with `undefined` where there is none. */
export interface ResolvedLimits {
  readonly maxDepth: number;
  readonly maxThreads: number;
  readonly maxLiveChildren: number | undefined;
  readonly maxTotalChildren: number | undefined;
  readonly maxPending: Bound;
  readonly memoryMb: Bound;
  readonly turnMs: number;
  readonly runMs: number | undefined;
  readonly cpuMs: number | undefined;
  readonly steps: number | undefined;
  readonly outputBytes: Bound;
  readonly toolMs: number | undefined;
  readonly unresponsiveMs: Bound;
  readonly restarts: RestartIntensity | undefined;
  readonly stopGraceMs: number;
  readonly interruptGraceMs: number;
  readonly startMs: number;
  readonly execArgv: readonly string[];
}

/** What one turn of an agent may use, with `undefined` where there is no limit. */
export interface TurnBounds {
  readonly turnMs: number | undefined;
  readonly runMs: number | undefined;
  readonly cpuMs: number | undefined;
  readonly steps: number | undefined;
  readonly outputBytes: number | undefined;
  readonly toolMs: number | undefined;
}

/** What distinguishes one thread from another before it has an agent. */
export interface ThreadLimits {
  readonly memoryMb: Bound;
}

/** @throws {ArgumentError} naming the limit and what it takes. */
export function resolveLimits(given: HarnessLimits = {}): ResolvedLimits {
  const limits = readOptions('limits', given, {
    maxDepth: 'any',
    maxThreads: 'any',
    maxLiveChildren: 'any',
    maxTotalChildren: 'any',
    maxPending: 'any',
    memoryMb: 'any',
    turnMs: 'any',
    runMs: 'any',
    cpuMs: 'any',
    steps: 'any',
    outputBytes: 'any',
    toolMs: 'any',
    unresponsiveMs: 'any',
    restarts: 'object',
    stopGraceMs: 'any',
    interruptGraceMs: 'any',
    startMs: 'any',
    execArgv: 'list',
  } satisfies Record<keyof HarnessLimits, OptionKind>);
  // Defaults stand in for what is absent, and for nothing else.
  const {
    maxDepth = 3,
    maxThreads = 64,
    maxLiveChildren,
    maxTotalChildren,
    maxPending = 10_000,
    memoryMb: mb = 256,
    turnMs = 600_000,
    runMs,
    cpuMs,
    steps,
    outputBytes = 32 * 1024 * 1024,
    toolMs,
    unresponsiveMs = 120_000,
    restarts,
    stopGraceMs = 2_000,
    interruptGraceMs = 5_000,
    startMs = 10_000,
    execArgv = [],
  } = limits;
  return {
    maxDepth: natural('maxDepth', maxDepth, 0),
    maxThreads: natural('maxThreads', maxThreads, 1),
    maxLiveChildren: optional(maxLiveChildren, (most) => natural('maxLiveChildren', most, 0)),
    maxTotalChildren: optional(maxTotalChildren, (most) => natural('maxTotalChildren', most, 0)),
    maxPending: bound(maxPending, (most) => natural('maxPending', most, 1)),
    memoryMb: memoryMb(mb),
    turnMs: duration('turnMs', turnMs),
    runMs: optional(runMs, (ms) => duration('runMs', ms)),
    cpuMs: optional(cpuMs, (ms) => duration('cpuMs', ms)),
    steps: optional(steps, (most) => natural('steps', most, 1)),
    outputBytes: bound(outputBytes, (most) => natural('outputBytes', most, 1)),
    toolMs: optional(toolMs, (ms) => duration('toolMs', ms)),
    unresponsiveMs: bound(unresponsiveMs, (ms) => duration('unresponsiveMs', ms)),
    restarts: optional(restarts, restartIntensity),
    stopGraceMs: duration('stopGraceMs', stopGraceMs),
    interruptGraceMs: duration('interruptGraceMs', interruptGraceMs),
    startMs: duration('startMs', startMs),
    execArgv: flags(execArgv),
  };
}

/**
 * What a turn of one agent may use: a child has what the harness says where it was given nothing
 * else; a root has what it was given.
 * @throws {ArgumentError} naming the limit and what it takes.
 */
export function turnBounds(
  harness: ResolvedLimits,
  own: AgentLimits,
  isChild: boolean,
): TurnBounds {
  // Only what is absent is the harness's: what is given in its place is a limit, or refused.
  const of = (name: keyof TurnBounds): number | undefined => {
    const value: Bound | undefined =
      own[name] !== undefined ? own[name] : isChild ? harness[name] : undefined;
    if (value === undefined) return undefined;
    const checked: Bound = AGENT_LIMIT_CHECKS[name](value as number);
    return checked === 'unlimited' ? undefined : checked;
  };
  return {
    turnMs: of('turnMs'),
    runMs: of('runMs'),
    cpuMs: of('cpuMs'),
    steps: of('steps'),
    outputBytes: of('outputBytes'),
    toolMs: of('toolMs'),
  };
}

/** `Infinity` for a bound that was taken away. */
export const atMost = (most: Bound): number => (most === 'unlimited' ? Infinity : most);

const optional = <T>(value: T | undefined, check: (value: T) => T): T | undefined =>
  value === undefined ? undefined : check(value);

function restartIntensity(given: RestartIntensity): RestartIntensity {
  const { max, withinMs } = readOptions('the limit restarts', given, {
    max: 'any',
    withinMs: 'any',
  });
  return {
    max: natural('restarts.max', max, 1),
    withinMs: duration('restarts.withinMs', withinMs),
  };
}

/** A list of one's own, of texts. @throws {ArgumentError} */
function flags(given: readonly string[]): readonly string[] {
  const copy = readList('execArgv', given);
  if (copy.every((flag) => typeof flag === 'string')) return copy as readonly string[];
  throw new ArgumentError('The limit execArgv takes a list of texts.');
}

/** Threads that may be starting at once: more would only make main wait longer for each. */
export const STARTING_AT_ONCE = Math.max(1, availableParallelism());
