import type { SubagentDescriptor } from '../../protocol/session-events.ts';
import type { PromptScope } from '../prompt/prompt.ts';
import type { ModelRoute } from '../models/routes.ts';
import type { Session } from '../session/session.ts';
import type { ToolScope } from '../tools/registry.ts';
import type { Agent, AgentOptions } from './agent.ts';
import type { Scope } from '../base/scope.ts';
import type { AgentHookChains } from './hooks.ts';

/** Limits of one agent. Absent: the harness's own. */
export interface AgentLimits {
  /** Hard heap limit of the agent's thread, in MiB. */
  readonly memoryMb?: number;
  /** Wall time of one turn, in milliseconds. */
  readonly turnMs?: number;
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

/** An agent that is ready to run and that nobody can see yet. */
export interface PreparedAgent {
  readonly agent: Agent;
  /** Published: from here on the agent accepts, and its thread may be woken. */
  activate(): void;
  /**
   * End the agent: stop its turn, let its thread go, to quiescence within the stop grace.
   * Idempotent. Before `activate` it leaves no trace.
   */
  dispose(pending: PendingInput): Promise<void>;
}

/**
 * Where agents run. Contract of `prepare`: it resolves when the agent's thread is up and its
 * modules are loaded, so that what fails there fails the start and leaves nothing.
 */
export interface AgentHost {
  prepare(spec: AgentSpec, signal?: AbortSignal): Promise<PreparedAgent>;
}
