import type { SessionId } from '../../protocol/ids.ts';
import type { Agent } from '../agent/agent.ts';
import { systemClock } from '../base/clock.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/logger.ts';
import { owned } from '../base/scope.ts';
import type { Ownership } from '../base/scope.ts';
import { assertMaxDepth } from './depth.ts';
import { SubagentLifecycle } from './lifecycle.ts';
import type { LifecycleEvents } from './lifecycle.ts';
import { startOneShot } from './one-shot.ts';
import type { OneShotContext } from './one-shot.ts';
import type { SubagentProvider, SubagentRun, SubagentStartRequest } from './provider.ts';
import { RemoteRuns } from './remote-runs.ts';
import { ProviderRegistry } from './registry.ts';
import type { ProviderEvents } from './registry.ts';

export interface SubagentRuntimeOptions {
  /** Live agents by id: a parent has to be the very object that is found here. */
  readonly agents: {
    get(id: SessionId): Agent | undefined;
    /** Absent: runs without an agent here are left to whoever started them. */
    onEnding?(end: (agent: Agent) => Promise<void>): () => void;
  };
  readonly logger: Logger;
  /** Cap on the depth of every child, whatever its provider; 0 forbids delegation. */
  readonly maxDepth?: number;
  /**
   * How long a child is waited for whose parent ends, with some time on top; a run that is not
   * released by then is given up. Default 2 000 ms, as that of a harness.
   */
  readonly stopGraceMs?: number;
  readonly clock?: Clock;
}

/** What can be observed of delegation. */
export type SubagentEvents = ProviderEvents & LifecycleEvents;

/** The `subagents` service: named providers, and the children started through them. */
export class SubagentRuntime {
  readonly #context: OneShotContext;

  /** @throws {ArgumentError} for a cap that is no non-negative safe integer. */
  constructor({ agents, logger, maxDepth, ...times }: SubagentRuntimeOptions) {
    if (maxDepth !== undefined) assertMaxDepth(maxDepth);
    const { clock = systemClock, stopGraceMs = 2_000 } = times;
    const remote = new RemoteRuns({ logger, clock, stopGraceMs });
    agents.onEnding?.((agent) => remote.endOf(agent));
    this.#context = {
      agents,
      remote,
      providers: new ProviderRegistry(logger),
      lifecycle: new SubagentLifecycle(logger),
      maxDepth,
    };
  }

  /**
   * Make a provider available under its name. Returns the idempotent disposer: new starts are
   * refused then, runs that were returned stay with their holders.
   *
   * @throws {SubagentError} `DUPLICATE_PROVIDER`
   */
  registerProvider(provider: SubagentProvider, owner: Ownership = {}): () => void {
    return owned(owner, () => this.#context.providers.register(provider));
  }

  getProvider(name: string): SubagentProvider | undefined {
    return this.#context.providers.get(name);
  }

  /** Names in the order of registration. */
  list(): string[] {
    return this.#context.providers.names();
  }

  /**
   * Start a one-shot child. Resolves when it is published; the run is then the caller's, who
   * disposes it. A rejection leaves nothing behind and is told to no listener.
   *
   * @throws {SubagentError} `UNAUTHORIZED` when `request.parent` is not the live agent itself;
   *   `NO_PROVIDER`; `UNSUPPORTED_CAPABILITY` for the first thing asked for that it cannot do.
   * @throws {SubagentDepthError} when the child would be too deep.
   * @throws {JsonSchemaError} for an `outputSchema` outside the enforced subset.
   * @throws {ArgumentError} for anything else that is wrong with the request.
   */
  start(name: string, request: SubagentStartRequest): Promise<SubagentRun> {
    return startOneShot(this.#context, name, request);
  }

  /**
   * Observe. With `agent`, `subagent/start` and `subagent/end` of that very agent's delegations
   * only; providers belong to nobody and are always told. Returns the disposer.
   */
  on<T extends keyof SubagentEvents>(
    type: T,
    listener: (payload: SubagentEvents[T]) => unknown,
    options: { readonly agent?: Agent } = {},
  ): () => void {
    switch (type) {
      case 'subagent/start':
      case 'subagent/end':
        return this.#context.lifecycle.on(type, listener as never, options);
      default:
        return this.#context.providers.observers.on(
          type as keyof ProviderEvents,
          listener as never,
        );
    }
  }
}
