/** Where a program takes part in what an agent does, instead of only watching it. */
import type { UserMessage } from '../../protocol/content.ts';
import type { Failure, RetryPolicy } from '../../protocol/model.ts';
import type { RequestHeader } from '../../protocol/session-events.ts';
import { Hooks } from '../base/hooks.ts';
import type { ToolHooks } from '../tools/hooks.ts';
import { notAnAgent } from './agent.ts';
import type { Agent } from './agent.ts';

interface InTurn {
  readonly agent: Agent;
  readonly turn: number;
  /** The turn's: a hook that waits for something gives up when it aborts. */
  readonly signal: AbortSignal;
}

interface InStep extends InTurn {
  readonly step: number;
}

/** What one model request is asked with. */
export type RequestConfig = RequestHeader['config'];

/**
 * What can be decided about an agent. Every context has its `agent`, the `turn` and the turn's
 * `signal`, and, but for `agent/turn-stopping`, the `step`.
 */
export interface AgentHooks {
  /**
   * Before each step: what the agent is told in it. By default what was claimed, and the
   * runtime context where that has changed. `reject` ends the turn as `blocked`: what was
   * claimed is spent, and a one-shot child's result is a `refusal`.
   */
  'agent/pre-step': {
    readonly context: InStep & { readonly messages: readonly UserMessage[] };
    readonly decision:
      | { readonly kind: 'enter'; readonly messages: readonly UserMessage[] }
      | { readonly kind: 'reject'; readonly reason?: string };
  };
  /** Before each model request, retries included: what is asked, and of whom. */
  'agent/request': {
    readonly context: InStep & { readonly attempt: number; readonly config: RequestConfig };
    readonly decision: RequestConfig;
  };
  /** After a model request failed, while its step is open. By default the retry policy decides. */
  'agent/request-error': {
    readonly context: InStep & {
      /** 1 for the step's first request. */
      readonly attempt: number;
      readonly provider: string;
      readonly failure: Failure;
      readonly retryPolicy: RetryPolicy;
    };
    readonly decision:
      | { readonly kind: 'retry'; readonly delayMs: number }
      | { readonly kind: 'fail' };
  };
  /**
   * The last step is done and nothing waits: the last chance to give the turn more to do, by
   * `agent.steer` or `agent.inject`.
   */
  'agent/turn-stopping': { readonly context: InTurn; readonly decision: void };
}

/** Every hook of a harness. */
export type HarnessHooks = AgentHooks & ToolHooks<Agent>;

/** @see Hooks */
export class AgentHookChains extends Hooks<HarnessHooks, Agent> {
  /** @internal */
  constructor() {
    super(
      Object.keys({
        'agent/pre-step': true,
        'agent/request': true,
        'agent/request-error': true,
        'agent/turn-stopping': true,
        'tool/pre-execute': true,
        'tool/post-execute': true,
      } satisfies Record<keyof HarnessHooks, true>) as (keyof HarnessHooks)[],
      notAnAgent,
    );
  }
}
