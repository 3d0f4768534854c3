/**
 * The one place where rooms are joined: the services of one program, from the options it gives.
 * It knows both that agents run in threads and that delegation exists; nothing below does.
 */
import { ArgumentError } from '../protocol/errors.ts';
import { Agents } from './agent/agents.ts';
import { assertHeard } from './agent/agent.ts';
import type { Agent, AgentEvents } from './agent/agent.ts';
import { AgentHookChains } from './agent/hooks.ts';
import { systemClock } from './base/clock.ts';
import { Offload } from './base/offload.ts';
import type { Clock } from './base/clock.ts';
import { assertListener } from './base/emitter.ts';
import { durationOf } from './base/limit-values.ts';
import { containedLogger, silentLogger } from './base/logger.ts';
import { owned } from './base/scope.ts';
import type { Ownership } from './base/scope.ts';
import { assertTornDown } from './base/teardown.ts';
import { checkOptions } from './harness-options.ts';
import type { HarnessOptions } from './harness-options.ts';
import { Jobs } from './jobs/jobs.ts';
import { ModelRoutes } from './models/routes.ts';
import { personaSection } from './prompt/persona.ts';
import { PromptRegistry } from './prompt/prompt.ts';
import { fork } from './providers/worker-fork.ts';
import { spawn } from './providers/worker-spawn.ts';
import { MemoryStore } from './session/memory-store.ts';
import { ColdFolds, foldEntry } from './session/projections/cold-folds.ts';
import { SessionProjections } from './session/projections/registry.ts';
import { Sessions } from './session/sessions.ts';
import type { SessionObservations } from './session/sessions.ts';
import { openSqliteStore } from './session/sqlite-store.ts';
import type { SessionPersistence } from './session/store.ts';
import { subagentIdentity } from './subagents/identity-projection.ts';
import { lineageOf } from './subagents/lineage.ts';
import { closeSubagents, jobSupport, SubagentRuntime } from './subagents/runtime.ts';
import type { SubagentEvents } from './subagents/runtime.ts';
import { sessionSummary } from './subagents/summary-projection.ts';
import { subagentTiming } from './subagents/timing-projection.ts';
import { ToolRegistry } from './tools/registry.ts';
import type { Health } from './worker-host/health.ts';
import { atMost, resolveLimits, STARTING_AT_ONCE } from './worker-host/limits.ts';
import { processReadings } from './worker-host/process-readings.ts';
import type { ProcessReadings } from './worker-host/process-readings.ts';
import { Supervision } from './worker-host/supervision.ts';
import type { ThreadEvents } from './worker-host/supervision.ts';
import { STUCK_MS } from './worker-host/thread.ts';
import type { Capacity } from './worker-host/threads.ts';
import { WorkerHost } from './worker-host/worker-host.ts';
import type { ThreadQueue } from './worker-host/worker-host.ts';
import type { MakeThreads } from './worker-host/worker-threads.ts';
import { workerThreads } from './worker-host/worker-threads.ts';

/** Everything a program can observe. */
export type HarnessEvents = SessionObservations & AgentEvents & SubagentEvents & ThreadEvents;

const EVENTS: readonly (keyof HarnessEvents)[] = Object.keys({
  'session/created': true,
  'session/event': true,
  'session/disposed': true,
  'session/lost': true,
  'agent/created': true,
  'agent/status': true,
  'agent/inbox/inserted': true,
  'agent/inbox/discarded': true,
  'agent/inbox/claimed': true,
  'agent/error': true,
  'agent/disposed': true,
  'subagent/provider-added': true,
  'subagent/provider-removed': true,
  'subagent/start': true,
  'subagent/end': true,
  'thread/warning': true,
  'thread/stuck': true,
  'thread/unstuck': true,
} satisfies Record<keyof HarnessEvents, true>) as (keyof HarnessEvents)[];

export interface ListenOptions extends Ownership {
  /** Only what concerns this very agent; of delegations, only its own. */
  readonly agent?: Agent;
}

/** What differs between a program and a test of this library. */
export interface HarnessParts {
  readonly clock?: Clock;
  /** In [0, 1). */
  random?(): number;
  readonly threads?: MakeThreads;
  readonly readings?: ProcessReadings;
  /** What the machine bears. */
  readonly machine?: Capacity;
  /** Is shown what runs the agents, once. */
  watch?(host: WorkerHost): void;
}

let queueOf: (harness: Harness) => ThreadQueue;

/** For whoever shows what agents do: who waits for a thread. */
export const threadQueue = (harness: Harness): ThreadQueue => queueOf(harness);

/** The services of one program. Whoever makes it disposes it; `await using` does so too. */
export class Harness {
  static {
    queueOf = (harness) => harness.#workerHost.queue;
  }

  readonly agents: Agents;
  /** Where a program takes part in what agents do; `on` only watches. */
  readonly hooks: AgentHookChains;
  readonly sessions: Sessions;
  readonly sessionPersistence: SessionPersistence;
  /** Values folded from logs; those of the library: `subagent`, `subagentTiming`, `sessionSummary`. */
  readonly sessionProjections: SessionProjections;
  readonly tools: ToolRegistry;
  readonly prompt: PromptRegistry;
  readonly models: ModelRoutes;
  readonly subagents: SubagentRuntime;
  /** One-shot runs in the background, by job id. */
  readonly jobs: Jobs;
  readonly #workerHost: WorkerHost;
  readonly #coldFolds: ColdFolds;
  readonly #supervision: Supervision;
  #disposal: Promise<void> | undefined;

  /**
   * Made by `createHarness`.
   * @internal
   */
  constructor(services: {
    agents: Agents;
    hooks: AgentHookChains;
    sessions: Sessions;
    projections: SessionProjections;
    tools: ToolRegistry;
    prompt: PromptRegistry;
    models: ModelRoutes;
    subagents: SubagentRuntime;
    jobs: Jobs;
    workerHost: WorkerHost;
    coldFolds: ColdFolds;
    supervision: Supervision;
  }) {
    this.agents = services.agents;
    this.hooks = services.hooks;
    this.sessions = services.sessions;
    this.sessionPersistence = services.sessions.store;
    this.sessionProjections = services.projections;
    this.tools = services.tools;
    this.prompt = services.prompt;
    this.models = services.models;
    this.subagents = services.subagents;
    this.jobs = services.jobs;
    this.#workerHost = services.workerHost;
    this.#coldFolds = services.coldFolds;
    this.#supervision = services.supervision;
  }

  /**
   * Observe. Listeners change nothing and stop nobody: what they throw is logged, except that a
   * synchronous throw at `session/created` or `agent/created` undoes that creation, and one at
   * `subagent/provider-added` that registration. Returns the disposer.
   */
  on<T extends keyof HarnessEvents>(
    type: T,
    listener: (event: HarnessEvents[T]) => unknown,
    options: ListenOptions = {},
  ): () => void {
    assertListener(EVENTS, type, listener);
    const listen = (): (() => void) => {
      const { agent } = options;
      assertHeard(type, agent);
      return this.#listen(type, listener as (event: never) => unknown, agent);
    };
    return owned(options, listen, { agent: 'object' });
  }

  /** How its threads, its memory and its agents are, as of now. Cheap enough to be asked each second. */
  health(): Health {
    const { readings, guard, stuckCount: stuck } = this.#supervision;
    const rssBytes = readings.rssBytes();
    return {
      threads: { ...this.#workerHost.threads.health, stuck },
      memory: { ...(rssBytes === undefined ? {} : { rssBytes }), budgetBytes: guard.budgetBytes },
      loop: { mostLateMs: guard.mostLateMs },
      agents: this.#workerHost.healthOf(this.agents.list()),
    };
  }

  /**
   * End everything: no new agent from this line on, every turn told to stop at once, every
   * thread gone within the stop grace and the time its end by force takes. What waits in
   * inboxes stays in the store. Idempotent; resolves when nothing is left.
   *
   * A store has the stop grace and 3 s to answer; what it answers later is dropped.
   * @throws {HarnessError} (rejects) after everything was tried: `STORE_IO` for a store that did
   *   not answer, `ACTIVATION_TEARDOWN_FAILED` when several things failed
   */
  dispose(): Promise<void> {
    this.#disposal ??= this.#dispose();
    return this.#disposal;
  }

  /** As `dispose`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  #listen(
    type: keyof HarnessEvents,
    listener: (event: never) => unknown,
    agent: Agent | undefined,
  ): () => void {
    const of = <E extends { agent?: Agent; session?: { id: string } }>(event: E): unknown => {
      const concerns =
        agent === undefined || event.agent === agent || event.session?.id === agent.id;
      return concerns ? listener(event as never) : undefined;
    };
    if (isSessionEvent(type)) return this.sessions.observers.on(type, of);
    if (isAgentEvent(type)) return this.agents.observers.on(type, of);
    if (isThreadEvent(type)) {
      const ofThread = (event: { readonly agent?: string }): unknown =>
        agent === undefined || event.agent === agent.id ? listener(event as never) : undefined;
      return this.#supervision.events.on(type, ofThread);
    }
    return this.subagents.on(type, listener as never, agent === undefined ? {} : { agent });
  }

  async #dispose(): Promise<void> {
    // Whoever ended with another tells of the same failure.
    const failures = new Set<unknown>();
    const step = (work: Promise<void>): Promise<void> =>
      work.catch((error: unknown) => void failures.add(error));
    // In this tick all are told to stop, from the top down, and nothing new is taken on. Children
    // that go on are released first, from the bottom up; then the agents; then what kept them.
    this.agents.halt();
    this.sessions.expectEnd('all');
    const drained = step(closeSubagents(this.subagents));
    const threads = [step(this.#workerHost.close()), step(this.#coldFolds.close())];
    await drained;
    await Promise.all([...threads, step(this.agents.close())]);
    await step(this.sessions.close());
    assertTornDown('The harness', [...failures]);
  }
}

/**
 * Join a harness. Nothing runs until an agent is told something; threads are kept ready from
 * now on.
 *
 * @throws {ArgumentError} for an option that is not what it must be
 * @throws {StoreError} when the store cannot be opened
 */
export async function buildHarness(
  given: HarnessOptions = {},
  parts: HarnessParts = {},
): Promise<Harness> {
  const options = checkOptions(given);
  const { clock = systemClock } = parts;
  const { durability = 'full', workers = {}, defaultModel } = options;
  const logger = containedLogger(options.logger ?? silentLogger);
  const limits = resolveLimits(options.limits);
  const { maxDepth, maxLiveChildren, maxTotalChildren, stopGraceMs } = limits;
  const models = new ModelRoutes(options.models);
  const tools = new ToolRegistry({ toolOrder: options.toolOrder });
  for (const tool of options.tools ?? []) tools.register(tool);
  const prompt = new PromptRegistry();
  if (options.persona !== undefined) prompt.section(personaSection(options.persona));
  for (const [name, value] of Object.entries(options.variables ?? {})) prompt.variable(name, value);
  if (defaultModel !== undefined && models.resolve(defaultModel.provider) === undefined) {
    throw new ArgumentError(
      `"defaultModel" names the provider "${defaultModel.provider}", which is not under "models".`,
    );
  }
  const supervision = new Supervision({
    clock,
    readings: parts.readings ?? processReadings,
    logger,
  });
  if (options.onStuck !== undefined) supervision.events.on('thread/stuck', options.onStuck);
  // What a test makes its threads of costs the machine nothing.
  const machine = parts.machine ?? (parts.threads === undefined ? supervision.machine : undefined);
  const factory = (parts.threads ?? workerThreads({ ...workers, clock }))(
    limits,
    logger,
    supervision,
  );
  const store = openStore(options.store ?? ':memory:', durability);
  const projections: SessionProjections = new SessionProjections({
    logger,
    onEvent: (listener) => sessions.observers.on('session/event', listener),
    read: (id, signal) => coldFolds.coldSnapshot(id, signal),
  });
  const patienceMs = durationOf(stopGraceMs, STUCK_MS);
  const sessions = new Sessions({ store, clock, logger, durability, patienceMs, projections });
  projections.register(subagentIdentity);
  projections.register(subagentTiming);
  projections.register(sessionSummary);
  const entry = foldEntry();
  const offload = entry && new Offload({ entry, clock, logger });
  const coldFolds: ColdFolds = new ColdFolds({ sessions, projections, logger, offload });
  let workerHost!: WorkerHost;
  const hooks = new AgentHookChains();
  const agents: Agents = new Agents({
    sessions,
    hooks,
    tools,
    prompt,
    models,
    host(observers) {
      workerHost = new WorkerHost({
        limits,
        factory,
        warm: workers.warm ?? 2,
        startingAtOnce: STARTING_AT_ONCE,
        ...(machine === undefined ? {} : { machine }),
        warn: (warning) => supervision.events.emit('thread/warning', warning),
        clock,
        random: () => parts.random?.() ?? Math.random(),
        logger,
        observers,
        routeOf: (provider) => models.resolve(provider),
        toolModules: () => tools.modules(),
        rootOf: (agent) => lineageOf(agents, agent).at(-1) ?? agent,
        isWaiting: (agent) => agents.isWaiting(agent) || jobs.isAwaitedBy(agent),
      });
      return workerHost;
    },
    defaultModel,
    clock,
    logger,
    stopGraceMs,
    maxPending: atMost(limits.maxPending),
  });
  parts.watch?.(workerHost);
  const continuable = { agents, sessions, limits };
  const times = { stopGraceMs, clock };
  const listing = { projections, sessions, persistence: store, coldFolds };
  const subagents = new SubagentRuntime({
    agents,
    continuable,
    listing,
    logger,
    maxDepth,
    maxLiveChildren,
    maxTotalChildren,
    ...times,
  });
  const jobs: Jobs = new Jobs({
    agents,
    support: jobSupport(subagents),
    logger,
    ...times,
    onWait: () => workerHost.review(),
  });
  const harness = new Harness({
    agents,
    hooks,
    sessions,
    projections,
    tools,
    prompt,
    models,
    subagents,
    jobs,
    workerHost,
    coldFolds,
    supervision,
  });
  try {
    for (const provider of options.providers ?? [spawn(), fork()]) {
      subagents.registerProvider(typeof provider === 'function' ? provider({ agents }) : provider);
    }
  } catch (error) {
    await harness.dispose();
    throw error;
  }
  return harness;
}

/** See `HarnessOptions`; `buildHarness` says what is thrown. */
export function createHarness(options: HarnessOptions = {}): Promise<Harness> {
  return buildHarness(options);
}

function openStore(
  store: string | SessionPersistence,
  durability: 'full' | 'process' | 'batched',
): SessionPersistence {
  if (typeof store !== 'string') return store;
  if (store === '') throw new ArgumentError('"store" takes a file name or \':memory:\'.');
  return store === ':memory:' ? new MemoryStore() : openSqliteStore({ path: store, durability });
}

const isSessionEvent = (type: string): type is keyof SessionObservations =>
  type.startsWith('session/');
const isThreadEvent = (type: string): type is keyof ThreadEvents => type.startsWith('thread/');
const isAgentEvent = (type: string): type is keyof AgentEvents => type.startsWith('agent/');
