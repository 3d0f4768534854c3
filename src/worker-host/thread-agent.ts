/**
 * The agent whose loop runs in a worker thread. Main keeps what decides: inbox, phase, the open
 * turn, and whether waiting messages may open another. The thread is replaceable; an agent
 * outlives it.
 */
import type { UserMessage } from '../../protocol/content.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { CancelCause } from '../../protocol/session-events.ts';
import type { WorkerEvent } from '../../protocol/to-main.ts';
import { checkCause } from '../agent/agent.ts';
import type {
  Agent,
  AgentEvents,
  AgentFailure,
  AgentOptions,
  AgentStatus,
} from '../agent/agent.ts';
import type { AgentSpec, Parked, PendingInput, PreparedAgent } from '../agent/agent-host.ts';
import type { AgentHookChains } from '../agent/hooks.ts';
import type { InboxView } from '../agent/agent.ts';
import { Intake, Phase } from '../agent/intake.ts';
import type { Clock } from '../base/clock.ts';
import type { Emitter } from '../base/emitter.ts';
import type { ModelRoute } from '../models/routes.ts';
import type { Session } from '../session/session.ts';
import { composed } from './composed.ts';
import { Conversation } from './conversation.ts';
import { CurrentThread } from './current-thread.ts';
import { Ending } from './ending.ts';
import type { RestartIntensity } from './limits.ts';
import type { OpenTurn } from './open-turn.ts';
import type { Residency } from './residency.ts';
import { Restarts } from './restarts.ts';
import type { ServedAgent } from './served-agent.ts';
import { stallOf } from './stall.ts';
import type { ThreadEnd } from './thread.ts';
import type { TurnMeter } from './turn-meter.ts';
import { Turns } from './turns.ts';
import type { TurnLimits } from './turns.ts';

export interface ThreadAgentLimits extends TurnLimits {
  readonly stopGraceMs: number;
  readonly restarts: RestartIntensity | undefined;
  /** Messages that may wait; `Infinity`: any number. */
  readonly maxPending: number;
}

export interface ThreadAgentOptions {
  readonly spec: AgentSpec;
  readonly limits: ThreadAgentLimits;
  readonly clock: Clock;
  readonly observers: Emitter<AgentEvents>;
  /**
   * Somebody may have to make room for others now: hooks are asked, who may wait for a child of
   * this agent, or a thread came for which there is nothing to do any more.
   */
  review(): void;
  /** Tool calls of its open turn run on main, and its thread can only wait for them. */
  isHeldUp(agent: ThreadAgent): boolean;
  /**
   * A thread for this agent, up and with its modules loaded. Contract: after an abort of the
   * signal it rejects, and nothing of the thread is left.
   */
  reside(agent: ThreadAgent, signal: AbortSignal, isFirst: boolean): Promise<Residency>;
}

export class ThreadAgent implements Agent, ServedAgent, PreparedAgent {
  readonly id: SessionId;
  readonly session: Session;
  readonly options: AgentOptions;
  readonly route: ModelRoute | undefined;
  readonly hooks: AgentHookChains;
  readonly conversation: Conversation;
  readonly #options: ThreadAgentOptions;
  readonly #intake: Intake;
  readonly #phase: Phase;
  readonly #thread: CurrentThread;
  readonly #turns: Turns;
  readonly #restarts: Restarts;
  readonly #ending: Ending;
  /** Hooks that are being asked about its turn. */
  #asking = 0;

  constructor(options: ThreadAgentOptions) {
    const { spec, limits, observers } = options;
    this.#options = options;
    this.session = spec.session;
    this.id = spec.session.id;
    this.options = spec.options;
    this.route = spec.route;
    this.hooks = spec.hooks;
    this.conversation = new Conversation({
      session: spec.session,
      descriptor: spec.descriptor,
      describeLimit: (limit) => `The turn was stopped for a limit: ${limit}.`,
    });
    this.#phase = new Phase(this, observers);
    this.#thread = new CurrentThread({
      stopGraceMs: limits.stopGraceMs,
      reside: (signal, isFirst) => options.reside(this, signal, isFirst),
      isWanted: () => this.status === 'running',
      came: () => {
        // Interrupted while it was on its way: nobody is told that the agent is idle, which it was.
        if (this.status === 'idle') options.review();
      },
      failed: (error) => this.#onNoThread(error),
      left: (residency, end) => this.#onLeft(residency, end),
    });
    this.#intake = new Intake({
      agent: this,
      session: spec.session,
      observers,
      resumed: spec.resumed,
      maxPending: limits.maxPending,
      onAccepted: () => this.#setPhase('running'),
      onWake: () => {
        // Idle: it was taken back, or parked, before it was committed.
        if (this.status === 'running') this.#thread.wake();
      },
      onSettled: () => this.#goOn(),
    });
    // One task, and one answer: what is left of it by a thread that died is nobody's to go on with.
    const isOneShot = spec.descriptor?.mode === 'one-shot';
    this.#restarts = new Restarts(isOneShot ? undefined : limits.restarts, options.clock);
    this.#turns = new Turns({
      conversation: this.conversation,
      intake: this.#intake,
      thread: this.#thread,
      limits,
      clock: options.clock,
      restarts: this.#restarts,
      isHeldUp: () => options.isHeldUp(this),
      exceeded: (limit) => this.cancel({ kind: 'limit', limit }, { keepInbox: true }),
      failed: (turn, error) => this.#tell(turn, error),
    });
    this.#ending = new Ending({
      id: this.id,
      conversation: this.conversation,
      intake: this.#intake,
      thread: this.#thread,
      turns: this.#turns,
      scope: spec.scope,
      idle: () => this.#setPhase('idle'),
    });
  }

  get agent(): Agent {
    return this;
  }

  get meter(): TurnMeter {
    return this.#turns.meter;
  }

  get status(): AgentStatus {
    return this.#phase.status;
  }

  get inbox(): InboxView {
    return this.#intake.inbox;
  }

  get isClosing(): boolean {
    return this.#ending.isBegun;
  }

  get parkedBy(): Parked | undefined {
    return this.#intake.parkedBy;
  }

  get hasTurn(): boolean {
    return this.#intake.hasTurn;
  }

  /** Its thread has nothing to do: it may be taken for someone else, or is kept for its state. */
  get unusedThread(): 'reclaimable' | 'kept' | undefined {
    if (this.status !== 'idle' || this.isClosing) return undefined;
    const { residency } = this.#thread;
    if (residency?.takesTurns !== true) return undefined;
    return residency.keepsState ? 'kept' : 'reclaimable';
  }

  /** True while its thread is on its way out. */
  get isLeaving(): boolean {
    return this.#thread.residency?.takesTurns === false;
  }

  followup(message: UserMessage): void {
    this.#intake.accept(message, 'next-turn', true);
  }

  steer(message: UserMessage): void {
    // After an abort the step this was meant for will not come: it gets a turn of its own.
    const isAborting = this.conversation.open?.cause !== undefined;
    this.#intake.accept(message, isAborting ? 'next-turn' : 'next-step', true);
  }

  inject(message: UserMessage): void {
    this.#intake.accept(message, 'next-step', false);
  }

  /** As `inject`, for what a tool call of its own wants shown next. */
  defer(message: UserMessage): void {
    this.#intake.accept(message, 'next-step', false, true);
  }

  enqueue(message: UserMessage): void {
    this.#intake.accept(message, 'next-turn', false);
  }

  wake(): void {
    this.#intake.wake();
  }

  cancel(cause: CancelCause, { keepInbox = false }: { readonly keepInbox?: boolean } = {}): void {
    checkCause(cause);
    if (!keepInbox) this.#intake.clear();
    // Called from inside the announcement of a message, it is too late for that to be ignored.
    if (this.status === 'idle' && !this.#intake.isAccepting) return;
    const turn = this.conversation.open;
    // What a failure parked a moment ago, before the loop asked again, stays what failed. A turn
    // that passes a limit is going to be such a failure.
    const isFailing = turn !== undefined && cause.kind === 'limit';
    const isParked = turn === undefined && this.#intake.parkedBy !== undefined;
    if (!isFailing && !isParked) this.#intake.park('interrupt');
    // Nothing runs, and what waits is discarded or parked, so nothing will: not even when a
    // commit that never came until now comes after all.
    if (turn === undefined) return this.#settleIfUnused();
    this.#turns.stop(turn, cause);
  }

  whenIdle(): Promise<void> {
    return this.#phase.whenIdle();
  }

  /** The first thread, before anybody can see the agent. What fails here fails the start. */
  start(signal?: AbortSignal): Promise<void> {
    return this.#thread.first(signal);
  }

  activate(): void {
    this.#intake.open();
    this.#thread.hold(false);
  }

  halt(cause: CancelCause, pending: PendingInput, fate?: string): void {
    this.#ending.halt(cause, pending, fate);
  }

  dispose(pending: PendingInput): Promise<void> {
    return this.#ending.dispose(pending);
  }

  /** Give the idle thread up; the next wake brings another. */
  leaveThread(): Promise<void> {
    return this.#thread.leave();
  }

  accepted(): Promise<void> {
    return this.#intake.settled();
  }

  takeTurn(): { turn: OpenTurn; messages: readonly UserMessage[] } | undefined {
    if (!this.#intake.mayOpenTurn) {
      // Idle from this line on. There is no await between the look and this, or a message
      // accepted in between would wait for a wake that nobody sends.
      this.#setPhase('idle');
      return undefined;
    }
    // All of it came after the claim: its commit wakes this thread again.
    if (!this.#intake.hasCommittedTurn) return undefined;
    return this.#turns.begin();
  }

  takeStep(turn: OpenTurn): readonly UserMessage[] {
    return this.#turns.join(turn);
  }

  /** See `stallOf`. */
  get stall(): string | undefined {
    if (this.isClosing) return undefined;
    const { status } = this;
    return stallOf({ status, turn: this.conversation.open }, this.#intake, this.#thread);
  }

  get isAsking(): boolean {
    return this.#asking > 0;
  }

  asking(): () => void {
    this.#asking++;
    this.#options.review();
    return () => void this.#asking--;
  }

  compose(turn: OpenTurn): ReturnType<ServedAgent['compose']> {
    return composed(this, this.#options.spec, turn.signal);
  }

  /** One event of the current thread. */
  onEvent(event: WorkerEvent): void {
    this.#turns.event(event);
  }

  /** No thread came for what waits. */
  #onNoThread(error: unknown): void {
    // Given up because the agent ends, nothing has failed.
    if (!this.isClosing) {
      // Interrupted while it was waited for: what waits is to be gone on with, not what failed.
      if (this.status === 'running') this.#intake.park('failure');
      this.#tell(undefined, toErrorRecord(error));
    }
    this.#setPhase('idle');
  }

  /** The thread is gone, and all it said is in the log: close what it left open. */
  #onLeft(residency: Residency, end: ThreadEnd): void {
    const { error } = end;
    const wasOfTurn = this.#turns.lost(end);
    if (!wasOfTurn && error !== undefined && !this.isClosing && !residency.wasAskedToStop) {
      // An agent outlives its thread: what an interrupt left waiting goes on waiting for that.
      const isAtWork = this.status === 'running' && this.parkedBy === undefined;
      if (isAtWork && !this.#restarts.died()) this.#intake.park('failure');
      this.#tell(undefined, error);
    }
    if (this.status !== 'running') return;
    if (this.#intake.mayOpenTurn) this.#thread.wake();
    else this.#setPhase('idle');
  }

  #tell(turn: number | undefined, { code, message }: AgentFailure): void {
    this.#options.observers.emit('agent/error', {
      agent: this,
      ...(turn === undefined ? {} : { turn }),
      error: { code, message },
    });
  }

  /** No turn is open, and nothing that waits may open one. */
  #settleIfUnused(): void {
    if (this.conversation.open === undefined && !this.#intake.mayOpenTurn) this.#setPhase('idle');
  }

  /** What waits has changed, and no wake came with that: whoever was told "not yet" asks again. */
  #goOn(): void {
    this.#settleIfUnused();
    if (this.status !== 'running' || this.conversation.open !== undefined) return;
    if (this.#intake.hasCommittedTurn) this.#thread.wake();
  }

  #setPhase(status: AgentStatus): void {
    this.#thread.hold(status === 'running');
    this.#phase.set(status);
  }
}
