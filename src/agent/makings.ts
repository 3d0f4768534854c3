/**
 * How agents come to be. Each making is a transaction: nothing can be seen of it before its last,
 * synchronous span, and whatever fails before leaves nothing.
 */
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { SubagentDescriptor } from '../../protocol/session-events.ts';
import { deferred, isPromiseLetGo, joinSignals, raceSignal } from '../base/deferred.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/logger.ts';
import type { Patience } from '../base/patience.ts';
import { takeBack } from '../base/take-back.ts';
import type { ModelRoutes } from '../models/routes.ts';
import type { PromptRegistry } from '../prompt/prompt.ts';
import type { Session } from '../session/session.ts';
import type { Sessions } from '../session/sessions.ts';
import type { ToolRegistry, ToolScope } from '../tools/registry.ts';
import type { Agent, AgentHandle } from './agent.ts';
import type { AgentHost, ManagedHandle, PreparedAgent } from './agent-host.ts';
import { AgentScope, setupPatience } from './agent-scope.ts';
import { checkedAgentOptions } from './create-options.ts';
import type { CreateHostOptions, DefaultModel, MakeOptions } from './create-options.ts';
import { Entry, ownerGone } from './entry.ts';
import type { Registries } from './entry.ts';
import { HostAgent } from './host-agent.ts';
import type { HostHandle } from './host-agent.ts';
import type { AgentHookChains } from './hooks.ts';

export interface MakingsOptions {
  readonly sessions: Sessions;
  readonly hooks: AgentHookChains;
  readonly tools: ToolRegistry;
  readonly prompt: PromptRegistry;
  readonly models: ModelRoutes;
  readonly defaultModel: DefaultModel;
  readonly logger: Logger;
  readonly clock: Clock;
  /** How long an agent that ends waits for what its setup registered, in milliseconds. */
  readonly stopGraceMs: number;
  /** Messages that may wait for an agent without a loop; `Infinity`: any number. */
  readonly maxPending: number;
}

/** Where an agent comes from, besides what it is made with. */
interface Origin {
  readonly owner?: Agent | undefined;
  readonly descriptor?: SubagentDescriptor | undefined;
  /** Its log holds a life before this one. */
  readonly resumed: boolean;
  open(): Session | Promise<Session>;
}

/** Where an agent is published. */
interface Place {
  readonly owning?: Entry | undefined;
  /** A call of its owner may wait for it. */
  readonly isAwaited?: boolean;
  readonly tools?: ToolScope;
}

export class Makings {
  readonly #options: MakingsOptions;
  readonly #host: AgentHost;
  readonly #registries: Registries;
  readonly #patience: Patience;
  readonly #making = new Set<Promise<unknown>>();
  readonly #closing = new AbortController();

  constructor(options: MakingsOptions, host: AgentHost, registries: Registries) {
    this.#options = options;
    this.#host = host;
    this.#registries = registries;
    this.#patience = setupPatience(options.clock, options.stopGraceMs);
  }

  /** An agent with a loop. `open` gives its session, which is let go of if it comes too late. */
  make(options: MakeOptions, origin: Origin): Promise<ManagedHandle> {
    return this.#tracked(this.#transact(options, origin));
  }

  /** An agent without one. */
  makeHost(options: CreateHostOptions): Promise<HostHandle> {
    return this.#tracked(this.#transactHost(options));
  }

  /** No other comes to be from this line on, nor any of those that are being made. Idempotent. */
  end(): void {
    this.#closing.abort(new SubagentError('DRAINING', 'The harness is being disposed.'));
  }

  /** Resolves when all that are being made now are there, or are taken back. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#making]);
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

  async #transactHost({ sessionId, cwd, onMessage }: CreateHostOptions): Promise<HostHandle> {
    const { sessions, defaultModel } = this.#options;
    this.#assertOpen();
    const id = sessionId as SessionId | undefined;
    const { signal } = this.#closing;
    const isStored = id !== undefined && (await raceSignal(sessions.isStored(id), signal));
    const opening = isStored
      ? sessions.load(id, signal)
      : sessions.prepare({
          ...(id === undefined ? {} : { id }),
          ...(cwd === undefined ? {} : { meta: { cwd } }),
        });
    const session = await this.#opened(opening, signal);
    const scope = new AgentScope(session.id, this.#patience, this.#options.logger);
    let handle: AgentHandle;
    let agent: HostAgent;
    try {
      this.#assertOpen();
      agent = new HostAgent({
        session,
        options: { ...defaultModel },
        scope,
        observers: this.#registries.observers,
        resumed: isStored,
        maxPending: this.#options.maxPending,
        ...(onMessage === undefined ? {} : { onMessage }),
      });
      handle = await this.#publish(agent, session, scope, {});
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
    { owner, descriptor, resumed, open }: Origin,
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
    const isAwaited =
      options.signal === undefined || !this.#registries.background.has(options.signal);
    if (isAwaited) waiting?.awaited.add(made.promise);
    let scope: AgentScope | undefined;
    let session: Session | undefined;
    let prepared: PreparedAgent | undefined;
    try {
      session = await this.#opened(open(), signal);
      const own = new AgentScope(session.id, this.#patience, this.#options.logger);
      scope = own;
      const { tools, prompt } = this.#options;
      const child = { tools: tools.scope(waiting?.tools), prompt: prompt.scope() };
      prepared = this.#host.build({
        session,
        options: agentOptions,
        route:
          agentOptions.provider === undefined
            ? undefined
            : this.#options.models.resolve(agentOptions.provider),
        ...child,
        hooks: this.#options.hooks,
        scope: own,
        limits: options.limits ?? {},
        ...(descriptor === undefined ? {} : { descriptor }),
        resumed,
      });
      const setup = options.setup?.({
        agent: prepared.agent,
        header: session.header,
        ...child,
        onDispose: (undo) => void own.add(undo),
      });
      if (isPromiseLetGo(setup)) {
        throw new ArgumentError('The setup of an agent is done when it returns: it cannot wait.');
      }
      await prepared.start(signal);
      // No await from here to the return: the agent is published whole or not at all.
      signal.throwIfAborted();
      if (owner !== undefined && !this.#registries.directory.isLive(owner)) throw ownerGone(owner);
      setup?.commit();
      const handle = this.#publish(prepared, session, own, {
        owning,
        isAwaited,
        tools: child.tools,
      });
      return await handle;
    } catch (error) {
      await takeBack(
        this.#options.logger,
        () => prepared?.dispose('keep'),
        () => scope?.dispose(),
        () => (session === undefined ? undefined : this.#options.sessions.release(session)),
      );
      throw error;
    } finally {
      made.resolve();
      waiting?.makings.delete(made.promise);
      waiting?.awaited.delete(made.promise);
      release();
    }
  }

  /** The session, unless it is given up before it is there: then what still comes is let go of. */
  #opened(given: Session | Promise<Session>, signal: AbortSignal): Promise<Session> {
    const opening = Promise.resolve(given);
    return raceSignal(opening, signal).catch((error: unknown) => {
      opening.then((late) => this.#options.sessions.release(late)).catch(() => {});
      throw error;
    });
  }

  /** The last span of a creation. Synchronous up to the returned promise. */
  #publish(
    prepared: PreparedAgent,
    session: Session,
    scope: AgentScope,
    { owning, isAwaited = false, tools }: Place,
  ): Promise<ManagedHandle> {
    const { agent } = prepared;
    const { directory, entries, observers } = this.#registries;
    this.#options.sessions.enter(session);
    const entry = new Entry(prepared, session, { scope, owner: owning, tools }, this.#registries);
    // A listener may end the owner, the agent itself or the whole harness: looked at anew
    // after every announcement.
    const assertWanted = (): void => {
      this.#assertOpen();
      if (owning?.ending.aborted === true) throw ownerGone(owning.agent);
      if (entry.ending.aborted) throw new SubagentError('DRAINING', `"${agent.id}" was disposed.`);
    };
    try {
      assertWanted();
      directory.add(agent);
      entries.set(agent, entry);
      owning?.children.add(entry);
      if (isAwaited) owning?.awaited.add(entry);
      observers.emitOrThrow('agent/created', { agent });
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

  #entryOf(owner: Agent): Entry {
    const entry = this.#registries.entries.get(owner);
    if (entry === undefined || entry.ending.aborted || !this.#registries.directory.isLive(owner)) {
      throw ownerGone(owner);
    }
    return entry;
  }

  #assertOpen(): void {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
  }
}
