/** The agents of one program: found here by their ids, made and ended through it. */
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import type { StoreError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { Emitter } from '../base/emitter.ts';
import { assertTornDown } from '../base/teardown.ts';
import type { Session } from '../session/session.ts';
import type { ToolScope } from '../tools/registry.ts';
import type { Agent, AgentEvents, AgentHandle } from './agent.ts';
import type { AgentHost, ManagedHandle, PendingInput } from './agent-host.ts';
import { checkHostOptions, checkMakeOptions } from './create-options.ts';
import type {
  CreateAgentOptions,
  CreateHostOptions,
  ResumeAgentOptions,
} from './create-options.ts';
import { Directory } from './directory.ts';
import type { Entry, Registries } from './entry.ts';
import type { HostHandle } from './host-agent.ts';
import { Makings } from './makings.ts';
import type { MakingsOptions } from './makings.ts';

export interface AgentsOptions extends MakingsOptions {
  /** Made once, with the events it tells. */
  host(observers: Emitter<AgentEvents>): AgentHost;
}

/** The agents of one harness: made, resumed and found here. */
export class Agents {
  /** @internal */
  readonly observers: Emitter<AgentEvents>;
  readonly #options: AgentsOptions;
  readonly #directory = new Directory();
  readonly #entries = new Map<Agent, Entry>();
  readonly #registries: Registries;
  readonly #makings: Makings;
  /** Logs that whoever made them begins to keep. */
  readonly #heldBack = new WeakSet<Session>();

  /** @internal */
  constructor(options: AgentsOptions) {
    this.#options = options;
    this.observers = new Emitter(options.logger);
    const host = options.host(this.observers);
    const { sessions, hooks } = options;
    this.#registries = {
      directory: this.#directory,
      entries: this.#entries,
      sessions,
      hooks,
      observers: this.observers,
      background: new WeakSet(),
      endings: new Set(),
    };
    this.#makings = new Makings(options, host, this.#registries);
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

  /**
   * A message for a turn of its own that wakes nobody. For whoever manages the agent's life.
   * @internal
   */
  enqueue(agent: Agent, message: UserMessage): void {
    this.#entries.get(agent)?.enqueue(message);
  }

  /** In the order of their publication. */
  list(): readonly Agent[] {
    return this.#directory.list();
  }

  /**
   * True while an agent has live children of its own, or is having one made, other than those that
   * go on in the background.
   * @internal
   */
  isWaiting(agent: Agent): boolean {
    const entry = this.#entries.get(agent);
    return entry !== undefined && entry.awaited.size > 0;
  }

  /**
   * What is made with this signal goes on beside its owner, none of whose calls waits for it.
   * @internal
   */
  inBackground(signal: AbortSignal): void {
    this.#registries.background.add(signal);
  }

  /** The tools of a live agent; a host without a loop has none. */
  toolsOf(agent: Agent): ToolScope | undefined {
    return this.#entries.get(agent)?.tools;
  }

  /**
   * Have something ended with every agent that ends: called once, in the tick in which its end
   * begins, right after it was halted. The agent stays registered until the returned promise settles; a
   * rejection is a failure of that end. Returns the idempotent disposer.
   * @internal
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

  /**
   * As `create`, for whoever manages the agent's life.
   * @internal
   */
  async createManaged(options: CreateAgentOptions): Promise<ManagedHandle> {
    checkMakeOptions(options, 'create');
    const { sessions } = this.#options;
    const { sessionId, meta, seed, owner, identity } = options;
    const open = async (): Promise<Session> => {
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
    };
    return this.#makings.make(options, {
      owner,
      descriptor: options.descriptor,
      resumed: false,
      open,
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

  /**
   * As `resume`, for whoever manages the agent's life.
   * @internal
   */
  async resumeManaged(id: string, options: ResumeAgentOptions): Promise<ManagedHandle> {
    checkMakeOptions(options, 'resume');
    if (typeof id !== 'string') throw new ArgumentError('A session is named by a text.');
    const open = (): Promise<Session> =>
      this.#options.sessions.load(id as SessionId, options.signal);
    return this.#makings.make(options, { resumed: true, open });
  }

  /**
   * An agent without a loop: the embedding program itself, as the owner of children. Its
   * session is stored like any other and is opened again by its id.
   */
  async createHost(options: CreateHostOptions = {}): Promise<HostHandle> {
    checkHostOptions(options);
    return this.#makings.makeHost(options);
  }

  /**
   * Begin the end of every agent, in this tick; what waits for them is kept. Idempotent.
   * @internal
   */
  halt(): void {
    this.#makings.end();
    for (const entry of this.#entries.values()) entry.halt({ kind: 'disposed' }, 'keep');
  }

  /**
   * End every agent, keeping what waits for them. Resolves at quiescence.
   * @internal
   */
  async close(): Promise<void> {
    this.halt();
    // All of them in this tick, parents and children alike, so that every deadline starts now.
    const ends = this.#endAll();
    await this.#makings.settled();
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
}
