import type { ContentBlock } from '../../protocol/content.ts';
import { SubagentError } from '../../protocol/errors.ts';
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import { assertHeard } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import { readOptions } from '../base/assert-options.ts';
import type { Agents } from '../agent/agents.ts';
import { systemClock } from '../base/clock.ts';
import type { Clock } from '../base/clock.ts';
import { assertListener } from '../base/emitter.ts';
import type { Logger } from '../base/logger.ts';
import { owned } from '../base/scope.ts';
import type { Ownership } from '../base/scope.ts';
import type { Sessions } from '../session/sessions.ts';
import { Activations } from './activations.ts';
import { Admission } from './admission.ts';
import { startContinuable } from './continuable.ts';
import type { ContinuableContext, ContinuableStart, ContinuableStartSpec } from './continuable.ts';
import { assertMaxDepth } from './depth.ts';
import { drainAll, drainChildren, drainDescendants, endWith } from './drain.ts';
import { followup } from './followup.ts';
import type { SubagentFollowupOptions } from './followup.ts';
import { interrupt } from './interrupt.ts';
import type { SubagentInterruptAuthority } from './interrupt.ts';
import type { ChildLimits } from './kept-limits.ts';
import { listChildren, listDescendants } from './listing.ts';
import type { ListingServices, SubagentDescendantListEntry, SubagentListEntry } from './listing.ts';
import { missedNotices } from './missed-notices.ts';
import { reportFrom } from './report.ts';
import type { ReportOptions } from './report.ts';
import { Setups } from './setup.ts';
import type { SetupContribution } from './setup.ts';
import { SubagentLifecycle } from './lifecycle.ts';
import type { Carried, LifecycleEvents } from './lifecycle.ts';
import { startOneShot } from './one-shot.ts';
import type { OneShotContext } from './one-shot.ts';
import type { SubagentProvider, SubagentRun, SubagentStartRequest } from './provider.ts';
import { reach } from './reach.ts';
import { Places } from './places.ts';
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
  /** Makes and keeps children that go on. Absent: there are none. */
  readonly continuable?: {
    readonly agents: Agents;
    readonly sessions?: Sessions;
    /** See `keptLimits`. */
    readonly limits?: ChildLimits;
  };
  /** What listings read, and nothing else here does. */
  readonly listing?: ListingServices;
  readonly logger: Logger;
  /** Cap on the depth of every child, whatever its provider; 0 forbids delegation. */
  readonly maxDepth?: number;
  /** Caps on the children of one root, however deep and whoever runs them. Absent: none. */
  readonly maxLiveChildren?: number | undefined;
  readonly maxTotalChildren?: number | undefined;
  /**
   * How long a child is waited for whose parent ends, with some time on top; a run that is not
   * released by then is given up. Default 2 000 ms, as that of a harness.
   */
  readonly stopGraceMs?: number;
  readonly clock?: Clock;
}

/** What can be observed of delegation. */
export type SubagentEvents = ProviderEvents & LifecycleEvents;

const EVENTS: readonly string[] = Object.keys({
  'subagent/provider-added': true,
  'subagent/provider-removed': true,
  'subagent/start': true,
  'subagent/end': true,
} satisfies Record<keyof SubagentEvents, true>);

let closing: (subagents: SubagentRuntime) => Promise<void>;

/**
 * For the harness alone: end every continuable child, keeping what waits for them, and start
 * none any more. They are all told to stop in the tick of the call.
 */
export const closeSubagents = (subagents: SubagentRuntime): Promise<void> => closing(subagents);

let reaching: (
  subagents: SubagentRuntime,
  ...to: Parameters<typeof reach> extends [unknown, ...infer Rest] ? Rest : never
) => ReturnType<typeof reach>;

/** For whoever speaks for the user of a whole harness: see `reach`. */
export const reachChild: typeof reaching = (subagents, ...to) => reaching(subagents, ...to);

let observing: <T extends keyof LifecycleEvents>(
  subagents: SubagentRuntime,
  type: T,
  listener: (carried: Carried<LifecycleEvents[T]>) => unknown,
) => () => void;

/** For whoever draws trees: delegations with their parents, which the events leave out. */
export const observeDelegations: typeof observing = (subagents, type, listener) =>
  observing(subagents, type, listener);

let supporting: (subagents: SubagentRuntime) => JobSupport;

/** What the jobs of an agent need to know of it. */
export interface JobSupport {
  /** @throws {SubagentError} when the agent may start nothing, because it is being ended */
  assertAdmits(agent: Agent): void;
  /** See `Activations.hold`. */
  hold(agent: Agent): () => void;
}

/** For the jobs of the same harness alone. */
export const jobSupport = (subagents: SubagentRuntime): JobSupport => supporting(subagents);

/** The `subagents` service: named providers, and the children started through them. */
export class SubagentRuntime {
  static {
    // Whoever has the service ends what is below an agent of theirs, never all of it.
    closing = (subagents) => subagents.#close();
    supporting = (subagents) => ({
      assertAdmits: (agent) => subagents.#context.assertAdmits(agent),
      hold: (agent) => subagents.#continuable?.activations.hold(agent) ?? (() => {}),
    });
    reaching = async (subagents, ...to) => reach(subagents.#bound(), ...to);
    observing = (subagents, type, listener) =>
      subagents.#context.lifecycle.onCarried(type, listener);
  }

  readonly #context: OneShotContext;
  readonly #continuable: ContinuableContext | undefined;
  readonly #setups = new Setups();
  readonly #listing: ListingServices;

  /**
   * @throws {ArgumentError} for a cap that is no non-negative safe integer.
   * @internal
   */
  constructor({ agents, continuable, logger, maxDepth, ...more }: SubagentRuntimeOptions) {
    if (maxDepth !== undefined) assertMaxDepth(maxDepth);
    const { clock = systemClock, stopGraceMs = 2_000, listing = {} } = more;
    this.#listing = listing;
    const remote = new RemoteRuns({ logger, clock, stopGraceMs });
    agents.onEnding?.((agent) => remote.endOf(agent));
    const lifecycle = new SubagentLifecycle(logger);
    const { maxLiveChildren: maxLive, maxTotalChildren: maxTotal } = more;
    const places = new Places({ agents, maxLive, maxTotal });
    const providers = new ProviderRegistry(logger);
    if (continuable !== undefined) {
      const { agents: live, sessions, limits: childLimits } = continuable;
      const admission = new Admission(live);
      const activations = new Activations({ agents: live, sessions, admission, lifecycle, logger });
      live.onEnding((agent, pending) => endWith(activations, agent, pending));
      sessions?.onLoading((session, signal) => missedNotices(sessions, session, signal));
      const setups = this.#setups;
      this.#continuable = { activations, providers, setups, maxDepth, childLimits, places };
    }
    this.#context = {
      agents,
      remote,
      providers,
      lifecycle,
      maxDepth,
      places,
      assertAdmits: (parent) => this.#continuable?.activations.assertAdmits(parent),
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

  /** The provider that this name stands for now. */
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
   *   `DRAINING` or `ACTIVATION_CLOSING` when the parent is being ended; `NO_PROVIDER`;
   *   `UNSUPPORTED_CAPABILITY` for the first thing asked for that it cannot do; `CAPACITY`.
   * @throws {SubagentDepthError} when the child would be too deep.
   * @throws {JsonSchemaError} for an `outputSchema` outside the enforced subset.
   * @throws {ArgumentError} for anything else that is wrong with the request.
   */
  start(name: string, request: SubagentStartRequest): Promise<SubagentRun> {
    return startOneShot(this.#context, name, request);
  }

  /**
   * Start a child that goes on: it takes follow-ups, outlives this call and, in the store, this
   * process. Resolves when its task is accepted and kept; nothing of it has run by then. A
   * rejection leaves nothing behind.
   *
   * @throws {SubagentError} `CONTINUATION_UNAVAILABLE`, `DRAINING`, `ACTIVATION_CLOSING`,
   *   `UNAUTHORIZED`, `PERSISTENCE_UNAVAILABLE`, `DUPLICATE_CHILD`, `NO_PROVIDER`,
   *   `UNSUPPORTED_CAPABILITY`, `ACTIVATION_SETUP_REVOKED`, `CAPACITY`
   * @throws {SubagentDepthError} when the child would be too deep
   * @throws {StoreError} when its task could not be kept
   * @throws {ArgumentError} for anything else that is wrong with the spec
   */
  async startContinuable(spec: ContinuableStartSpec): Promise<ContinuableStart> {
    return startContinuable(this.#bound(), spec);
  }

  /**
   * One more message for a child of this parent: a later turn of its own, in order. A child that
   * has settled is brought back from the store. Resolves when the message is accepted and kept.
   *
   * @throws {SubagentError} `CONTINUATION_UNAVAILABLE`, `DRAINING`, `ACTIVATION_CLOSING`,
   *   `UNAUTHORIZED`, `PERSISTENCE_UNAVAILABLE`, `NOT_RESUMABLE`, `CAPACITY`; of a child that is
   *   brought back also `ACTIVATION_SETUP_REVOKED`
   * @throws {StoreError} when it could not be kept
   * @throws {ArgumentError} for content without text, or options that are not what they must be
   */
  async followup(
    parent: Agent,
    childId: SessionId,
    content: readonly ContentBlock[] | string,
    options: SubagentFollowupOptions,
  ): Promise<{ messageId: MessageId }> {
    return followup(this.#bound(), parent, childId, content, options);
  }

  /**
   * Stop the open turn of a child, at once and without waiting: what waits for it, its residency
   * and its own children stay. A child with nothing open is left as it is.
   *
   * @throws {SubagentError} `UNAUTHORIZED`
   */
  interrupt(target: SessionId, authority: SubagentInterruptAuthority): void {
    if (this.#continuable !== undefined)
      interrupt(this.#continuable.activations, target, authority);
  }

  /**
   * What a child chose to tell its direct parent. Resolves when it is in the parent's inbox and
   * kept.
   *
   * @throws {SubagentError} `CONTINUATION_UNAVAILABLE`, `DRAINING`, `UNAUTHORIZED`,
   *   `ACTIVATION_CLOSING`, `PARENT_UNAVAILABLE`, `CAPACITY`
   * @throws {StoreError} when it could not be kept
   * @throws {ArgumentError} for content that is none, or has more than 900 000 bytes as JSON, and
   *   for options that are not what they must be
   */
  async reportFrom(
    child: Agent,
    content: readonly ContentBlock[] | string,
    options: ReportOptions,
  ): Promise<{ messageId: MessageId }> {
    return reportFrom(this.#bound().activations, child, content, options);
  }

  /**
   * Add a part to every continuable child that is built from now on, before it can be seen.
   * Returns the idempotent disposer, which takes it out of resident children at once.
   *
   * @throws {SubagentError} (the disposer) `ACTIVATION_SETUP_RELEASE_FAILED`
   */
  registerContinuableSetup(contribution: SetupContribution, owner: Ownership = {}): () => void {
    return owned(owner, () => this.#setups.register(contribution));
  }

  /**
   * End all continuable children below these very agents, and take on nothing new there until
   * they have left the registry. What waits for those children is discarded. Agents that are not
   * live are passed over.
   *
   * @throws {SubagentError} (rejects) `ACTIVATION_TEARDOWN_FAILED`, after all were released
   */
  async drainContinuableDescendants(parents: readonly Agent[]): Promise<void> {
    if (this.#continuable === undefined) return;
    await drainDescendants(this.#continuable.activations, parents, 'discard');
  }

  /**
   * End these children of this very parent, and what they own; ids of children that are not
   * resident are passed over. What waits for those children is discarded, also when they were
   * settling already, as long as they are in the registry.
   *
   * @throws {SubagentError} (rejects) `UNAUTHORIZED` before anything is ended;
   *   `ACTIVATION_TEARDOWN_FAILED` after all were released
   */
  async drainContinuableChildren(parent: Agent, childIds: readonly SessionId[]): Promise<void> {
    await drainChildren(this.#bound().activations, parent, childIds);
  }

  /**
   * The direct children that a session has, live and stored, by age, then id; nobody is woken.
   * The parent need not be live. A child that is still being made is left out; one that cannot be
   * read is listed as a diagnostic, and hides no other.
   *
   * @throws {SubagentError} `SUBAGENT_CONTROL_PROJECTIONS_UNAVAILABLE`,
   *   `SUBAGENT_CONTROL_SESSION_STORE_UNAVAILABLE`, `CANCELLED`, `DRAINING` once the harness is
   *   being disposed
   * @throws {StoreError} when the store cannot say what sessions there are
   * @throws {ArgumentError}
   */
  async listChildren(parentId: SessionId, signal?: AbortSignal): Promise<SubagentListEntry[]> {
    return listChildren(this.#listing, parentId, signal);
  }

  /**
   * All that is below a session, as `listChildren` lists it, each in front of its own children.
   * What is below an ordinary session, or below one that cannot be read, is listed too. Throws
   * what `listChildren` throws.
   */
  async listDescendants(
    rootId: SessionId,
    signal?: AbortSignal,
  ): Promise<SubagentDescendantListEntry[]> {
    return listDescendants(this.#listing, rootId, signal);
  }

  /**
   * Observe. With `agent`, `subagent/start` and `subagent/end` of that very agent's delegations
   * only; providers belong to nobody and are always told. Returns the disposer.
   * @throws {ArgumentError} for an event that does not exist, no function, or no agent
   */
  on<T extends keyof SubagentEvents>(
    type: T,
    listener: (payload: SubagentEvents[T]) => unknown,
    options: { readonly agent?: Agent } = {},
  ): () => void {
    assertListener(EVENTS, type, listener);
    const { agent } = readOptions('the options of a listener', options, { agent: 'object' });
    assertHeard(type, agent);
    switch (type) {
      case 'subagent/start':
      case 'subagent/end':
        return this.#context.lifecycle.on(
          type,
          listener as never,
          agent === undefined ? {} : { agent },
        );
      default:
        return this.#context.providers.observers.on(
          type as keyof ProviderEvents,
          listener as never,
        );
    }
  }

  async #close(): Promise<void> {
    if (this.#continuable !== undefined) await drainAll(this.#continuable.activations, 'keep');
  }

  #bound(): ContinuableContext {
    if (this.#continuable !== undefined) return this.#continuable;
    throw new SubagentError('CONTINUATION_UNAVAILABLE', 'There is nobody here who keeps children.');
  }
}
