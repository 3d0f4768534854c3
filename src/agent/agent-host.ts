import type { UserMessage } from '../../protocol/content.ts';
import type { CancelCause, SubagentDescriptor } from '../../protocol/session-events.ts';
import type { PromptScope } from '../prompt/prompt.ts';
import type { ModelRoute } from '../models/routes.ts';
import type { Session } from '../session/session.ts';
import type { ToolScope } from '../tools/registry.ts';
import type { Agent, AgentHandle, AgentOptions } from './agent.ts';
import type { Bound } from '../base/limit-values.ts';
import type { Scope } from '../base/scope.ts';
import type { AgentHookChains } from './hooks.ts';

/**
 * Limits of one agent. Absent: the harness's own, which but for `memoryMb` bind children only; a
 * root has those that are given for it. See `HarnessLimits` for what each counts.
 */
export interface AgentLimits {
  /** Memory of the agent's thread, in MiB, or `'unlimited'`; see `HarnessLimits`. */
  readonly memoryMb?: Bound;
  /** Wall time of one turn, in milliseconds. */
  readonly turnMs?: number;
  /** Wall time of one run, in milliseconds. */
  readonly runMs?: number;
  /** Processor time of its thread in one turn, in milliseconds. */
  readonly cpuMs?: number;
  /** Steps of one turn. */
  readonly steps?: number;
  /** What one turn may add to its log, in bytes, or `'unlimited'`. */
  readonly outputBytes?: Bound;
  /** Time of one tool call, in milliseconds. */
  readonly toolMs?: number;
}

/** All that an agent is made of, resolved. The host takes nothing else from anywhere. */
export interface AgentSpec {
  readonly session: Session;
  readonly options: AgentOptions;
  /** Where its model runs; `undefined` when it has none, which its first request will say. */
  readonly route: ModelRoute | undefined;
  readonly tools: ToolScope;
  readonly prompt: PromptScope;
  readonly hooks: AgentHookChains;
  /** Ends with the agent: everything registered for it alone. */
  readonly scope: Scope;
  readonly limits: AgentLimits;
  /** Appended once, in the agent's first turn, before its first step. */
  readonly descriptor?: SubagentDescriptor;
  /** True when the log holds a life before this one. */
  readonly resumed: boolean;
}

/** What becomes of waiting messages when an agent ends. */
export type PendingInput = 'keep' | 'discard';

/** What keeps waiting messages from opening a turn until something waking comes. */
export type Parked = 'interrupt' | 'failure' | 'resume';

/** An agent that nobody can see yet. */
export interface PreparedAgent {
  readonly agent: Agent;
  readonly parkedBy: Parked | undefined;
  /** Something waits that opens a turn, unless it is parked. */
  readonly hasTurn: boolean;
  /**
   * Resolves when all it needs to run is there, so that what fails here fails the start. After
   * an abort it rejects. Either way `dispose` is still due.
   */
  start(signal?: AbortSignal): Promise<void>;
  /** Published: from here on the agent accepts, and its thread may be woken. */
  activate(): void;
  /** Behind what waits for turns of its own, without waking: for an agent that is being ended. */
  enqueue(message: UserMessage): void;
  /**
   * Begin the end, in this tick: no turn opens any more, the open one is told to stop for this
   * cause, and the stop grace runs. Only messages that wake nobody are accepted still.
   * Idempotent: the first call counts.
   *
   * @param fate what whoever tells it something from here on hears of it, such as "has ended; ask
   *   its successor"; absent: that it is being disposed, or was
   */
  halt(cause: CancelCause, pending: PendingInput, fate?: string): void;
  /**
   * Halt for disposal if that was not done, then let the thread go, to quiescence within the
   * stop grace of the halt. Idempotent. Before `activate` it leaves no trace.
   */
  dispose(pending: PendingInput): Promise<void>;
}

/** Ownership, and what whoever manages an agent's life needs besides. Not for programs. */
export interface ManagedHandle extends AgentHandle {
  readonly parkedBy: Parked | undefined;
  /** See `PreparedAgent.hasTurn`. */
  readonly hasTurn: boolean;
  /** See `PreparedAgent.halt`; what it owns is halted with it. */
  halt(cause: CancelCause, pending: PendingInput, fate?: string): void;
  /** Absent: what waits is discarded. */
  dispose(pending?: PendingInput): Promise<void>;
}

/** Where agents run. */
export interface AgentHost {
  /** @throws {ArgumentError} for limits that are none. Nothing runs yet. */
  build(spec: AgentSpec): PreparedAgent;
}
