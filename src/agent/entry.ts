/**
 * What main keeps of one live agent besides itself: what it owns, and its one ending. Nothing
 * here decides that an agent ends.
 */
import type { UserMessage } from '../../protocol/content.ts';
import { SubagentError } from '../../protocol/errors.ts';
import { deferred } from '../base/deferred.ts';
import type { Emitter } from '../base/emitter.ts';
import { assertTornDown } from '../base/teardown.ts';
import type { Session } from '../session/session.ts';
import type { Sessions } from '../session/sessions.ts';
import type { ToolScope } from '../tools/registry.ts';
import type { CancelCause } from '../../protocol/session-events.ts';
import type { Agent, AgentEvents } from './agent.ts';
import type { ManagedHandle, PendingInput, PreparedAgent } from './agent-host.ts';
import type { AgentScope } from './agent-scope.ts';
import type { Directory } from './directory.ts';
import type { AgentHookChains } from './hooks.ts';

/** What an agent is removed from when it has ended. */
export interface Registries {
  readonly directory: Directory;
  readonly entries: Map<Agent, Entry>;
  readonly sessions: Sessions;
  readonly hooks: AgentHookChains;
  readonly observers: Emitter<AgentEvents>;
  /** Signals of those that are made for nobody who waits; see `Agents.inBackground`. */
  readonly background: WeakSet<AbortSignal>;
  /** Whoever has something to end with an agent that it does not own; see `Agents.onEnding`. */
  readonly endings: Set<(agent: Agent, pending: PendingInput) => Promise<void>>;
}

/** What belongs to one agent, and whom it belongs to. */
interface Parts {
  readonly scope: AgentScope;
  readonly owner: Entry | undefined;
  readonly tools: ToolScope | undefined;
}

const DISPOSED: CancelCause = { kind: 'disposed' };

export class Entry {
  readonly agent: Agent;
  readonly handle: ManagedHandle;
  /** Absent of an agent without a loop. */
  readonly tools: ToolScope | undefined;
  readonly children = new Set<Entry>();
  /** Children that are being made. */
  readonly makings = new Set<Promise<void>>();
  /** Of these and of `makings`, those that some call of it may wait for. */
  readonly awaited = new Set<object>();
  readonly #ending = new AbortController();
  readonly #prepared: PreparedAgent;
  readonly #session: Session;
  readonly #scope: AgentScope;
  readonly #owner: Entry | undefined;
  readonly #registries: Registries;
  #disposal: Promise<void> | undefined;
  /** What others end with it, from its halt on. */
  #others: Promise<PromiseSettledResult<void>[]> | undefined;

  constructor(
    prepared: PreparedAgent,
    session: Session,
    { scope, owner, tools }: Parts,
    registries: Registries,
  ) {
    this.agent = prepared.agent;
    this.#prepared = prepared;
    this.#session = session;
    this.#scope = scope;
    this.#owner = owner;
    this.tools = tools;
    this.#registries = registries;
    this.handle = {
      agent: prepared.agent,
      get parkedBy() {
        return prepared.parkedBy;
      },
      get hasTurn() {
        return prepared.hasTurn;
      },
      halt: (cause, pending, fate) => this.halt(cause, pending, fate),
      dispose: (pending) => this.dispose(pending === 'keep' ? 'keep' : 'discard'),
      [Symbol.asyncDispose]: () => this.dispose('discard'),
    };
  }

  /** See `PreparedAgent.enqueue`. */
  enqueue(message: UserMessage): void {
    this.#prepared.enqueue(message);
  }

  /** Aborted when it is being disposed: it owns nothing new. */
  get ending(): AbortSignal {
    return this.#ending.signal;
  }

  /** From the top down in this tick: it, then what ends with it and what it owns. */
  halt(cause: CancelCause, pending: PendingInput, fate?: string): void {
    if (this.#ending.signal.aborted) return;
    // Set before anything is told: a listener may come here again.
    this.#ending.abort(ownerGone(this.agent));
    this.#registries.sessions.expectEnd(this.#session);
    this.#scope.expectEnd();
    this.#prepared.halt(cause, pending, fate);
    const { endings } = this.#registries;
    this.#others = Promise.allSettled([...endings].map((end) => end(this.agent, pending)));
    for (const child of this.children) child.halt(DISPOSED, pending);
  }

  /** Memoised: all callers wait for the one teardown. */
  dispose(pending: PendingInput): Promise<void> {
    if (this.#disposal !== undefined) return this.#disposal;
    const { promise, resolve } = deferred<void>();
    // Set before anything is told: a listener may come here again.
    this.#disposal = promise;
    resolve(this.#end(pending));
    return promise;
  }

  async #end(pending: PendingInput): Promise<void> {
    const { agent } = this;
    const { directory, entries, sessions, hooks, observers } = this.#registries;
    // Cancelled from the top down in this tick, released from the bottom up.
    this.halt(DISPOSED, pending);
    const children = [...this.children].map((child) => child.dispose(pending));
    const ends = await Promise.allSettled([...children, ...this.makings]);
    // There by now, also when a listener came here from inside of the halt.
    ends.push(...((await this.#others) ?? []));
    ends.push(...(await Promise.allSettled([this.#prepared.dispose(pending)])));
    this.#owner?.children.delete(this);
    this.#owner?.awaited.delete(this);
    entries.delete(agent);
    const wasLive = directory.isLive(agent);
    directory.remove(agent);
    if (wasLive) observers.emit('agent/disposed', { agent });
    hooks.forget(agent);
    const [left] = await Promise.allSettled([sessions.leave(this.#session)]);
    const failures = [...ends, left].flatMap((end) =>
      end?.status === 'rejected' ? [end.reason as unknown] : [],
    );
    assertTornDown(`The agent "${agent.id}"`, failures);
  }
}

export const ownerGone = (owner: Agent): SubagentError =>
  new SubagentError('UNAUTHORIZED', `The agent "${owner.id}" is not live; it can own no child.`);
