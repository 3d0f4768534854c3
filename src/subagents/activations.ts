/**
 * The residencies of continuable children: how each is published, given messages, judged settled
 * and released. What is decided after a look at one child (is it settled, is it to be brought back)
 * is decided under that child's lock; an end that somebody orders is begun in their tick. What
 * must not be torn apart is one span without an await.
 */
import { printed, toErrorRecord } from '../../protocol/error-record.ts';
import { SubagentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import { notAnAgent } from '../agent/agent.ts';
import type { Agent } from '../agent/agent.ts';
import type { ManagedHandle, PendingInput } from '../agent/agent-host.ts';
import type { Agents } from '../agent/agents.ts';
import { deferred, joinSignals, raceSignal } from '../base/deferred.ts';
import { KeyLock } from '../base/key-lock.ts';
import type { Logger } from '../base/logger.ts';
import { teardownFailed } from '../base/teardown.ts';
import type { Sessions } from '../session/sessions.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { Activation } from './activation.ts';
import type { Admission } from './admission.ts';
import type { SubagentLifecycle } from './lifecycle.ts';
import { idOf, isLive, lineageOf } from './lineage.ts';
import { deliverNotice } from './notices.ts';
import { NO_FATES, failedBy, fatesOf, outcomeOf } from './settlement.ts';
import type { Outcome, Settlement } from './settlement.ts';

export interface ActivationServices {
  readonly agents: Agents;
  /** Absent: nothing is kept, and so no child can be continued. */
  readonly sessions: Sessions | undefined;
  readonly admission: Admission;
  readonly lifecycle: SubagentLifecycle;
  readonly logger: Logger;
}

/** A child that is being made or resumed, so that whoever closes admission can wait for it. */
interface Materialisation {
  readonly lineage: readonly Agent[];
  readonly ending: AbortController;
  readonly settled: Promise<void>;
}

/** What a residency is begun with. */
export interface Birth {
  readonly childId: SessionId;
  readonly parent: Agent;
  /** As the child's descriptor names it. */
  readonly provider: string;
  readonly label: string;
  readonly signal: AbortSignal;
  /** Until it is published it ends with this signal. */
  build(ending: AbortSignal): Promise<ManagedHandle>;
}

export class Activations {
  readonly services: ActivationServices;
  readonly lock = new KeyLock<SessionId>();
  readonly #resident = new Map<SessionId, Activation>();
  readonly #materialising = new Set<Materialisation>();
  /** Agents whose session is another process's now. */
  readonly #lost = new WeakSet<Agent>();

  constructor(services: ActivationServices) {
    this.services = services;
    const { observers } = services.agents;
    // One listener for all: what happens to one child costs the others nothing.
    observers.on('agent/status', ({ agent, status }) => {
      if (status === 'idle') this.#poke(agent);
    });
    // What waited may have been all that kept an idle one here.
    observers.on('agent/inbox/discarded', ({ agent }) => this.#poke(agent));
    observers.on('agent/error', ({ agent, error }) => {
      const activation = this.of(agent);
      if (activation !== undefined) activation.failure = error;
    });
    observers.on('agent/disposed', ({ agent }) => services.admission.forget(agent));
    services.sessions?.observers.on('session/lost', ({ session }) => {
      const agent = services.agents.get(session.id);
      if (agent !== undefined) this.#lost.add(agent);
    });
  }

  /** The residency of this very agent. */
  of(agent: Agent): Activation | undefined {
    const id = idOf(agent);
    const activation = id === undefined ? undefined : this.#resident.get(id);
    return activation?.agent === agent ? activation : undefined;
  }

  get(childId: SessionId): Activation | undefined {
    return this.#resident.get(childId);
  }

  list(): readonly Activation[] {
    return [...this.#resident.values()];
  }

  /** Give up those being made below one of these. Resolves when nothing of them is left. */
  async giveUp(roots: readonly Agent[] | 'all'): Promise<void> {
    const below = [...this.#materialising].filter(
      ({ lineage }) => roots === 'all' || roots.some((root) => lineage.includes(root)),
    );
    const { admission } = this.services;
    for (const { lineage, ending } of below) {
      const [parent] = lineage;
      const isClosed = roots === 'all' || (parent !== undefined && admission.isClosed(parent));
      const text = 'What this child was to belong to is being ended.';
      ending.abort(new SubagentError(isClosed ? 'DRAINING' : 'ACTIVATION_CLOSING', text));
    }
    await Promise.all(below.map(({ settled }) => settled));
  }

  /**
   * Make a child resident. Under its lock, in the tick in which its parent was found to admit it.
   * Rejects with everything undone; the first error is the one that is told.
   */
  async begin(birth: Birth): Promise<Activation> {
    const { agents, lifecycle } = this.services;
    const { childId, parent, provider, label, signal, build } = birth;
    const lineage = lineageOf(agents, parent);
    return this.#materialise(lineage, signal, async (ending) => {
      const handle = await build(ending);
      // No await from here to the return.
      const activation = new Activation(handle, { label, parentId: parent.id, lineage });
      this.#resident.set(childId, activation);
      try {
        ending.throwIfAborted();
        this.assertAdmits(parent);
        activation.ownedBy(this.of(parent));
        activation.end = lifecycle.start(parent, { provider, id: childId, local: true }, label);
      } catch (error) {
        // Kept: what an earlier life left waiting was not addressed to this attempt.
        await this.end(activation, 'keep').catch((failure: unknown) =>
          this.#warn(activation, failure),
        );
        throw error;
      }
      return activation;
    });
  }

  /**
   * Wait for what others do before a child of this parent is made or told: not beyond the
   * caller's signal, nor the tick in which what belongs to the parent is being ended. What comes
   * later is dropped.
   */
  waitFor<T>(parent: Agent, signal: AbortSignal, begin: () => T | PromiseLike<T>): Promise<T> {
    return this.#materialise(lineageOf(this.services.agents, parent), signal, (ending) =>
      raceSignal(Promise.resolve(begin()), ending),
    );
  }

  /** `giveUp` ends it, and waits for it. */
  async #materialise<T>(
    lineage: readonly Agent[],
    signal: AbortSignal,
    work: (ending: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const done = deferred<void>();
    const ending = new AbortController();
    const materialisation = { lineage, ending, settled: done.promise };
    this.#materialising.add(materialisation);
    let release: (() => void) | undefined;
    try {
      // The caller's signal may throw: nobody else is to wait for what never began.
      const joined = joinSignals([signal, ending.signal]);
      release = joined.release;
      return await work(joined.signal);
    } finally {
      this.#materialising.delete(materialisation);
      done.resolve();
      release?.();
    }
  }

  /**
   * The parent may take on work for children now.
   * @throws {SubagentError} `DRAINING`, `UNAUTHORIZED`, `ACTIVATION_CLOSING`
   */
  assertAdmits(parent: Agent): void {
    this.services.admission.assertOpen(parent);
    if (!isLive(this.services.agents, parent)) {
      const id = printed(idOf(parent));
      throw new SubagentError('UNAUTHORIZED', `"${id}" is not the live agent of that id.`);
    }
    if (this.of(parent)?.disposal !== undefined) {
      throw new SubagentError(
        'ACTIVATION_CLOSING',
        `The subagent "${parent.id}" is being released: it starts and tells nobody any more.`,
      );
    }
  }

  /**
   * Give a resident child a message: one span. Its id is known here before anybody is told of it.
   * @returns what resolves when the message is kept, and rejects with a `StoreError` when it could
   *   not be and was withdrawn; never unhandled
   * @throws whatever keeps it from being accepted; then nothing of it is left
   */
  submit(
    activation: Activation,
    parent: Agent,
    message: UserMessage,
    signal: AbortSignal,
  ): { readonly kept: Promise<void> } {
    signal.throwIfAborted();
    this.assertAdmits(parent);
    if (activation.disposal !== undefined) {
      throw new SubagentError(
        'ACTIVATION_CLOSING',
        `The subagent "${activation.id}" is being released.`,
      );
    }
    if (activation.parentId !== parent.id) throw notYours(activation.id, parent);
    activation.agent.followup(message);
    // Asked for in this span: a write that fails before it is asked for would be made again, and
    // the message be withdrawn all the same.
    const kept = activation.agent.session.committed().then(
      () => {
        activation.hasAccepted = true;
      },
      (error: unknown) => {
        activation.withdrawn.add(message.id);
        throw error;
      },
    );
    kept.catch(() => {});
    return { kept };
  }

  /**
   * Keep this very agent resident, if it is a continuable child, until the returned function is
   * called: something of its own goes on, of which it will be told.
   */
  hold(agent: Agent): () => void {
    const activation = this.of(agent);
    if (activation === undefined) return () => {};
    const held = {};
    activation.holds.add(held);
    return () => {
      if (activation.holds.delete(held)) this.review(activation);
    };
  }

  /** Judge, under its lock, whether a child is settled, and open its end in the same section. */
  review(activation: Activation): void {
    if (activation.disposal !== undefined || activation.isUnderReview) return;
    activation.isUnderReview = true;
    void this.lock.run(activation.id, () => {
      activation.isUnderReview = false;
      if (activation.disposal !== undefined || activation.state !== 'settled') return;
      this.endUnattended(activation, 'keep');
    });
  }

  /**
   * End a residency and those it owns. Memoised; its presence is the cutoff. In this tick all of
   * them are told to stop, from the top down; they are released from the bottom up.
   *
   * An end that discards may come to one that keeps what waits. Until the child has left the
   * registry that is thrown away still; from then on it belongs to the child's next residency.
   * @throws {SubagentError} (rejects) `ACTIVATION_TEARDOWN_FAILED`, after everything was tried
   */
  end(activation: Activation, pending: PendingInput): Promise<void> {
    if (activation.disposal !== undefined) {
      if (pending === 'discard') this.#discard(activation);
      return activation.disposal;
    }
    const { promise, resolve } = deferred<void>();
    activation.disposal = promise;
    activation.pending = pending;
    promise.catch(() => {});
    activation.handle.halt({ kind: 'parent' }, pending, SETTLED);
    resolve(this.#release(activation, this.endOwned(activation, pending)));
    return promise;
  }

  #discard(activation: Activation): void {
    const { agent, id, pending } = activation;
    if (pending === 'discard' || this.#lost.has(agent)) return;
    if (this.services.agents.get(id) !== agent) return;
    activation.pending = 'discard';
    // It was told to stop before: this takes away what waits, and says nothing else to it.
    agent.cancel({ kind: 'parent' });
    void this.endOwned(activation, 'discard');
  }

  /** As `end`, for nobody who waits for it: a failure is logged. */
  endUnattended(activation: Activation, pending: PendingInput): void {
    this.end(activation, pending).catch((error: unknown) => this.#warn(activation, error));
  }

  /** End what a residency owns, in this tick. */
  endOwned({ owned }: Activation, pending: PendingInput): readonly Promise<void>[] {
    return [...owned].map((child) => this.end(child, pending));
  }

  async #release(activation: Activation, owned: readonly Promise<void>[]): Promise<void> {
    const { agent, handle, id } = activation;
    const failures: unknown[] = [];
    const step = async (work: () => Promise<void>): Promise<void> => {
      try {
        await work();
      } catch (error) {
        failures.push(error);
      }
    };
    for (const child of owned) await step(() => child);
    await step(() => agent.whenIdle());
    await this.#flush(activation);
    let outcome: Outcome | undefined;
    let fates = NO_FATES;
    await step(async () => void (outcome = outcomeOf(activation)));
    await step(() => handle.dispose(activation.pending));
    // Only now nothing is accepted, claimed or thrown away any more.
    if (outcome !== undefined) await step(async () => void (fates = fatesOf(activation)));
    if (outcome !== undefined && failures.length === 0) {
      return this.#tell(activation, { ...(outcome as Outcome), ...fates });
    }
    const failure = teardownFailed(`The subagent "${id}"`, failures);
    await this.#tell(activation, { ...failedBy(failure), ...fates });
    throw failure;
  }

  /** What was appended since the last write. That it fails is no failure of the residency. */
  async #flush(activation: Activation): Promise<void> {
    const { agent } = activation;
    if (this.#lost.has(agent)) return;
    try {
      await this.services.sessions?.flush(agent.session);
    } catch (error) {
      this.#warn(activation, error, 'The best-effort final session flush failed.');
    }
  }

  /**
   * First the notice, then the parent is let go on, then whoever watches. Until then it is known
   * here, so that whoever ends the parent waits for it, and a follow-up for its next residency.
   */
  async #tell(activation: Activation, settlement: Settlement): Promise<void> {
    const { agent, id, parentId, hasAccepted } = activation;
    const parent = this.services.agents.get(parentId);
    const isHeard = parent !== undefined && !this.#lost.has(parent) && !this.#lost.has(agent);
    // Published and never given anything that was kept: nobody waits to hear of it.
    if (isHeard && activation.end !== undefined && hasAccepted) {
      const told = deliverNotice(this, activation, settlement);
      // Kept with the parent's next write, if the store does not answer now.
      const inTime = this.services.sessions?.inTime(agent.session, told) ?? told;
      await inTime.catch((error: unknown) => {
        this.#warn(activation, error, 'A parent could not be told of its child.');
      });
    }
    const { owner } = activation;
    owner?.owned.delete(activation);
    activation.owner = undefined;
    if (this.#resident.get(id) === activation) this.#resident.delete(id);
    activation.end?.(settlement.stopReason, settlement.output, settlement.diagnostic);
    if (owner !== undefined) this.review(owner);
  }

  #poke(agent: Agent): void {
    const activation = this.of(agent);
    if (activation !== undefined) this.review(activation);
  }

  #warn(
    activation: Activation,
    error: unknown,
    text = 'A subagent was not released cleanly.',
  ): void {
    this.services.logger.warn({ child: activation.id, error: toErrorRecord(error) }, text);
  }
}

/** What whoever tells the agent itself something from then on hears. */
const SETTLED = 'has settled; use harness.subagents.followup to tell it more';

/**
 * As `assertAdmits`, for whatever a caller gives as the parent.
 * @param does what only an agent does, as the end of a sentence
 * @throws {SubagentError} `DRAINING`, `UNAUTHORIZED`, `ACTIVATION_CLOSING`
 */
export function assertParent(activations: Activations, parent: Agent, does: string): void {
  const problem = notAnAgent(parent);
  if (problem === undefined) return activations.assertAdmits(parent);
  throw new SubagentError('UNAUTHORIZED', `Only an agent ${does}, and this is none: ${problem}.`);
}

/** @throws {SubagentError} `PERSISTENCE_UNAVAILABLE` */
export function persistence({ services }: Activations): Sessions {
  if (services.sessions !== undefined) return services.sessions;
  throw new SubagentError(
    'PERSISTENCE_UNAVAILABLE',
    'A child can be continued only where sessions are kept.',
  );
}

export const notYours = (childId: SessionId, parent: Agent): SubagentError =>
  new SubagentError('UNAUTHORIZED', `"${childId}" is no subagent of "${parent.id}".`);
