import type { MessageId, SessionId } from '../../protocol/ids.ts';
import type { Agent, AgentFailure } from '../agent/agent.ts';
import type { ManagedHandle, PendingInput } from '../agent/agent-host.ts';
import type { Waiting } from '../session/waiting.ts';
import type { SubagentEnd } from './lifecycle.ts';

export type ActivationState = 'running' | 'waiting' | 'settled';

/**
 * One residency of a continuable child, from its publication to its release. What it is doing
 * is derived each time it is asked, from facts that have their home elsewhere. It outlives the
 * child's threads; the child outlives it, in the store.
 */
export class Activation {
  readonly handle: ManagedHandle;
  readonly parentId: SessionId;
  readonly label: string;
  /** Where this residency begins in the child's log. */
  readonly boundary: number;
  /** The child and all that were above it when it was published: who may stop it. */
  readonly ancestry: WeakSet<Agent>;
  /** What an earlier life left waiting there. */
  readonly waitedBefore: Waiting;
  /** Messages that could not be kept, of which whoever sent them was told. */
  readonly withdrawn = new Set<MessageId>();
  /** Children of its own that are resident. */
  readonly owned = new Set<Activation>();
  /** What else it works on beside its turns; see `Activations.hold`. */
  readonly holds = new Set<object>();
  /** The resident parent that waits for it; top-level parents wait for nobody. */
  owner: Activation | undefined;
  /** The last failure that was told of the child: that of a thread between two turns is in no log. */
  failure: AgentFailure | undefined;
  /** A message of this residency was kept: its end is to be told. */
  hasAccepted = false;
  /** Present from the moment its end is decided: the cutoff of everything. */
  disposal: Promise<void> | undefined;
  /** What its end makes of what waits. Once it is to be discarded, it is. */
  pending: PendingInput = 'keep';
  /** It is about to be judged. */
  isUnderReview = false;
  /** Tells the end; absent until the start was told. */
  end: SubagentEnd | undefined;

  constructor(
    handle: ManagedHandle,
    {
      label,
      parentId,
      lineage,
    }: {
      readonly label: string;
      readonly parentId: SessionId;
      /** The parent and what is live above it. */
      readonly lineage: readonly Agent[];
    },
  ) {
    this.handle = handle;
    this.label = label;
    this.parentId = parentId;
    const { session, inbox } = handle.agent;
    this.boundary = session.seq;
    this.waitedBefore = { 'next-turn': [...inbox.nextTurn], 'next-step': [...inbox.nextStep] };
    this.ancestry = new WeakSet([handle.agent, ...lineage]);
  }

  get id(): SessionId {
    return this.handle.agent.id;
  }

  get agent(): Agent {
    return this.handle.agent;
  }

  /**
   * Messages that a failure parked stay in the store and keep nobody resident; those that an
   * interrupt parked are about to be gone on with, whoever sent them.
   */
  get state(): ActivationState {
    const { parkedBy, hasTurn } = this.handle;
    if (this.agent.status === 'running' || (hasTurn && parkedBy === 'interrupt')) return 'running';
    return this.owned.size + this.holds.size > 0 ? 'waiting' : 'settled';
  }

  /** From here on the parent is not settled while this is resident. Idempotent. */
  ownedBy(owner: Activation | undefined): void {
    if (owner === undefined) return;
    this.owner = owner;
    owner.owned.add(this);
  }
}
