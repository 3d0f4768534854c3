/**
 * Makes agents, publishes them, and ends them. A creation is a transaction: nothing can be seen
 * of it before its last, synchronous span, and whatever fails before leaves nothing.
 */
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { StoreError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { SubagentDescriptor } from '../../protocol/session-events.ts';
import type { Clock } from '../base/clock.ts';
import { deferred, isPromiseLetGo, joinSignals, raceSignal } from '../base/deferred.ts';
import { Emitter } from '../base/emitter.ts';
import type { Logger } from '../base/logger.ts';
import { Scope } from '../base/scope.ts';
import { takeBack } from '../base/take-back.ts';
import { assertTornDown } from '../base/teardown.ts';
import type { ModelRoutes } from '../models/routes.ts';
import type { PromptRegistry } from '../prompt/prompt.ts';
import type { Session } from '../session/session.ts';
import type { Sessions } from '../session/sessions.ts';
import type { ToolRegistry } from '../tools/registry.ts';
import type { Agent, AgentEvents, AgentHandle } from './agent.ts';
import type { AgentHost, ManagedHandle, PendingInput, PreparedAgent } from './agent-host.ts';
import { checkHostOptions, checkMakeOptions, checkedAgentOptions } from './create-options.ts';
import type {
  CreateAgentOptions,
  CreateHostOptions,
  DefaultModel,
  MakeOptions,
  ResumeAgentOptions,
} from './create-options.ts';
import { Directory } from './directory.ts';
import { Entry, ownerGone } from './entry.ts';
import type { Registries } from './entry.ts';
import { HostAgent } from './host-agent.ts';
import type { HostHandle } from './host-agent.ts';
import type { AgentHookChains } from './hooks.ts';

export interface AgentsOptions {
  readonly sessions: Sessions;
  readonly hooks: AgentHookChains;
  readonly tools: ToolRegistry;
  readonly prompt: PromptRegistry;
  readonly models: ModelRoutes;
  /** Made once, with the events it tells. */
  host(observers: Emitter<AgentEvents>): AgentHost;
  readonly defaultModel: DefaultModel;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class Agents {
  readonly observers: Emitter<AgentEvents>;
  readonly #options: AgentsOptions;
  readonly #host: AgentHost;
  readonly #directory = new Directory();
  readonly #entries = new Map<Agent, Entry>();
  readonly #registries: Registries;
  readonly #making = new Set<Promise<unknown>>();
  /** Logs that whoever made them begins to keep. */
  readonly #heldBack = new WeakSet<Session>();
  readonly #closing = new AbortController();

  constructor(options: AgentsOptions) {
    this.#options = options;
    this.observers = new Emitter(options.logger);
    this.#host = options.host(this.observers);
    const { sessions, hooks } = options;
    this.#registries = {
      directory: this.#directory,
      entries: this.#entries,
      sessions,
      hooks,
      observers: this.observers,
      endings: new Set(),
    };
    // The log of a new session is kept from its first accepted message on, in one transaction
    // with it: an agent that was never told anything leaves no row. If that write fails, the
    // next message tries again.
    this.observers.on('agent/inbox/inserted', ({ agent: { session } }) => {
      if (!this.#heldBack.has(session)) sessions.accept(session);
    });
    sessions.observers.on('session/lost', ({ session, error }) => this.#lost(session, error));
  }

  /** The live agent of this id. Holding it lets one act as that agent, not dispose it. */
  get(id: SessionId): Agent | undefined {
    return this.#directory.get(id);
  }

  /** A message for a turn of its own that wakes nobody. For whoever manages the agent's life. */
  enqueue(agent: Agent, message: UserMessage): void {
    this.#entries.get(agent)?.enqueue(message);
  }

  /** In the order of their publication. */
  list(): readonly Agent[] {
    return this.#directory.list();
  }

  /** True while an agent has live children of its own, or is having one made. */
  isWaiting(agent: Agent): boolean {
    const entry = this.#entries.get(agent);
    return entry !== undefined && (entry.children.size > 0 || entry.makings.size > 0);
  }

  /**
   * Have something ended with every agent that ends: called once, in the tick in which its end
   * begins, right after it was halted. The agent stays registered until the returned promise settles; a
   * rejection is a failure of that end. Returns the idempotent disposer.
   */
  onEnding(end: (agent: Agent, pending: PendingInput) => Promise<void>): () => void {
    const entry: typeof end = (agent, pending) => end(agent, pending);
    this.#registries.endings.add(entry);
    return () => void this.#registries.endings.delete(entry);
  }

  /**
   * Make an agent and publish it. It runs nothing until it is told something.
   *
   * @throws {ArgumentError} for bad options, a model provider that is not registered, or an id
   *   that is live
   * @throws {WorkerError} when its thread or its modules do not start
   * @throws {ToolFilterError} when the setup filters tools that do not exist
   */
  create(options: CreateAgentOptions = {}): Promise<AgentHandle> {
    return this.createManaged(options);
  }

  /** As `create`, for whoever manages the agent's life. */
  async createManaged(options: CreateAgentOptions): Promise<ManagedHandle> {
    checkMakeOptions(options, 'create');
    const { sessions } = this.#options;
    const { sessionId, meta, seed, owner, identity } = options;
    return this.#make(options, owner, options.descriptor, false, async () => {
      if (sessionId !== undefined && (await sessions.isStored(sessionId as SessionId))) {
        throw new ArgumentError(`The session "${sessionId}" is stored already: resume it.`);
      }
      const session = sessions.prepare({
        ...(sessionId === undefined ? {} : { id: sessionId as SessionId }),
        ...(meta === undefined ? {} : { meta }),
        ...(seed === undefined ? {} : { seed }),
      });
      if (identity !== undefined) {
        this.#heldBack.add(session);
        session.append('subagent/descriptor', identity);
        session.append('session/end-seed', {});
      }
      return session;
    });
  }

  /**
   * Open a stored agent again. What waited for it still waits: nothing runs until a waking
   * message comes, and then what waited runs first.
   *
   * @throws {StoreError} `SESSION_NOT_FOUND`, `SESSION_OWNED_ELSEWHERE`, …
   */
  resume(id: string, options: ResumeAgentOptions = {}): Promise<AgentHandle> {
    return this.resumeManaged(id, options);
  }

  /** As `resume`, for whoever manages the agent's life. */
  async resumeManaged(id: string, options: ResumeAgentOptions): Promise<ManagedHandle> {
    checkMakeOptions(options, 'resume');
    if (typeof id !== 'string') throw new ArgumentError('A session is named by a text.');
    return this.#make(options, undefined, undefined, true, () =>
      this.#options.sessions.load(id as SessionId, options.signal),
    );
  }

  /**
   * An agent without a loop: the embedding program itself, as the owner of children. Its
   * session is stored like any other and is opened again by its id.
   */
  async createHost(options: CreateHostOptions = {}): Promise<HostHandle> {
    checkHostOptions(options);
    return this.#tracked(this.#makeHost(options));
  }

  /** Begin the end of every agent, in this tick; what waits for them is kept. Idempotent. */
  halt(): void {
    this.#closing.abort(new SubagentError('DRAINING', 'The harness is being disposed.'));
    for (const entry of this.#entries.values()) entry.halt({ kind: 'disposed' }, 'keep');
  }

  /** End every agent, keeping what waits for them. Resolves at quiescence. */
  async close(): Promise<void> {
    this.halt();
    // All of them in this tick, parents and children alike, so that every deadline starts now.
    const ends = this.#endAll();
    await Promise.allSettled([...this.#making]);
    const late = await this.#endAll();
    const failures = new Set(
      [...(await ends), ...late].flatMap((end) =>
        end.status === 'rejected' ? [end.reason as unknown] : [],
      ),
    );
    assertTornDown('What the harness ran', [...failures]);
  }

  #endAll(): Promise<PromiseSettledResult<void>[]> {
    return Promise.allSettled([...this.#entries.values()].map((entry) => entry.dispose('keep')));
  }

  #make(
    options: MakeOptions,
    owner: Agent | undefined,
    descriptor: SubagentDescriptor | undefined,
    resumed: boolean,
    open: () => Session | Promise<Session>,
  ): Promise<ManagedHandle> {
    return this.#tracked(this.#transact(options, owner, descriptor, resumed, open));
  }

  #tracked<T>(making: Promise<T>): Promise<T> {
    const settled = making.then(
      () => {},
      () => {},
    );
    this.#making.add(settled);
    void settled.then(() => this.#making.delete(settled));
    return making;
  }

  async #makeHost({ sessionId, cwd, onMessage }: CreateHostOptions): Promise<HostHandle> {
    const { sessions, defaultModel } = this.#options;
    this.#assertOpen();
    const id = sessionId as SessionId | undefined;
    const isStored = id !== undefined && (await sessions.isStored(id));
    const session = isStored
      ? await sessions.load(id)
      : sessions.prepare({
          ...(id === undefined ? {} : { id }),
          ...(cwd === undefined ? {} : { meta: { cwd } }),
        });
    const scope = new Scope();
    let handle: AgentHandle;
    let agent: HostAgent;
    try {
      this.#assertOpen();
      agent = new HostAgent({
        session,
        options: { ...defaultModel },
        scope,
        observers: this.observers,
        resumed: isStored,
        ...(onMessage === undefined ? {} : { onMessage }),
      });
      handle = await this.#publish(agent, session, undefined);
    } catch (error) {
      await takeBack(
        this.#options.logger,
        () => scope.dispose(),
        () => sessions.release(session),
      );
      throw error;
    }
    return {
      agent,
      messages: () => agent.messages(),
      dispose: () => handle.dispose(),
      [Symbol.asyncDispose]: () => handle.dispose(),
    };
  }

  async #transact(
    options: MakeOptions,
    owner: Agent | undefined,
    descriptor: SubagentDescriptor | undefined,
    resumed: boolean,
    open: () => Session | Promise<Session>,
  ): Promise<ManagedHandle> {
    this.#assertOpen();
    options.signal?.throwIfAborted();
    const owning = owner === undefined ? undefined : this.#entryOf(owner);
    const agentOptions = checkedAgentOptions(
      options.agentOptions,
      this.#options.defaultModel,
      this.#options.models,
    );
    const { signal, release } = joinSignals([this.#closing.signal, options.signal, owning?.ending]);
    const made = deferred<void>();
    const waiting =
      owning ?? (options.startedBy === undefined ? undefined : this.#entryOf(options.startedBy));
    waiting?.makings.add(made.promise);
    const scope = new Scope();
    let session: Session | undefined;
    let prepared: PreparedAgent | undefined;
    try {
      const opening = Promise.resolve(open());
      session = await raceSignal(opening, signal).catch((error: unknown) => {
        // Given up before it was there: whatever still comes is let go of.
        opening.then((late) => this.#options.sessions.release(late)).catch(() => {});
        throw error;
      });
      const { tools, prompt } = this.#options;
      const child = { tools: tools.scope(), prompt: prompt.scope() };
      prepared = this.#host.build({
        session,
        options: agentOptions,
        route:
          agentOptions.provider === undefined
            ? undefined
            : this.#options.models.resolve(agentOptions.provider),
        ...child,
        hooks: this.#options.hooks,
        scope,
        limits: options.limits ?? {},
        ...(descriptor === undefined ? {} : { descriptor }),
        resumed,
      });
      const setup = options.setup?.({
        agent: prepared.agent,
        header: session.header,
        ...child,
        onDispose: (undo) => void scope.add(undo),
      });
      if (isPromiseLetGo(setup)) {
        throw new ArgumentError('The setup of an agent is done when it returns: it cannot wait.');
      }
      await prepared.start(signal);
      // No await from here to the return: the agent is published whole or not at all.
      signal.throwIfAborted();
      if (owner !== undefined && !this.#directory.isLive(owner)) throw ownerGone(owner);
      setup?.commit();
      return await this.#publish(prepared, session, owning);
    } catch (error) {
      await takeBack(
        this.#options.logger,
        () => prepared?.dispose('keep'),
        () => scope.dispose(),
        () => (session === undefined ? undefined : this.#options.sessions.release(session)),
      );
      throw error;
    } finally {
      made.resolve();
      waiting?.makings.delete(made.promise);
      release();
    }
  }

  /** The last span of a creation. Synchronous up to the returned promise. */
  #publish(
    prepared: PreparedAgent,
    session: Session,
    owning: Entry | undefined,
  ): Promise<ManagedHandle> {
    const { agent } = prepared;
    this.#options.sessions.enter(session);
    const entry = new Entry(prepared, session, owning, this.#registries);
    // A listener may end the owner, the agent itself or the whole harness: looked at anew
    // after every announcement.
    const assertWanted = (): void => {
      this.#assertOpen();
      if (owning?.ending.aborted === true) throw ownerGone(owning.agent);
      if (entry.ending.aborted) throw new SubagentError('DRAINING', `"${agent.id}" was disposed.`);
    };
    try {
      assertWanted();
      this.#directory.add(agent);
      this.#entries.set(agent, entry);
      owning?.children.add(entry);
      this.observers.emitOrThrow('agent/created', { agent });
      assertWanted();
      prepared.activate();
    } catch (error) {
      // What was announced is taken back, by the ordinary way.
      return takeBack(this.#options.logger, () => entry.dispose('keep')).then(() => {
        throw error;
      });
    }
    return Promise.resolve(entry.handle);
  }

  /** Another process took the session over: what this one still does with it would be lost. */
  #lost(session: Session, { code, message }: StoreError): void {
    const agent = this.#directory.get(session.id);
    const entry = agent === undefined ? undefined : this.#entries.get(agent);
    if (agent === undefined || entry === undefined) return;
    this.observers.emit('agent/error', { agent, error: { code, message } });
    void entry.dispose('keep').catch((error: unknown) => {
      const fields = { agent: agent.id, error: toErrorRecord(error) };
      this.#options.logger.warn(fields, 'An agent whose session was lost did not end cleanly.');
    });
  }

  #entryOf(owner: Agent): Entry {
    const entry = this.#entries.get(owner);
    if (entry === undefined || entry.ending.aborted || !this.#directory.isLive(owner)) {
      throw ownerGone(owner);
    }
    return entry;
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
  }
}
