/**
 * An agent without a loop: the embedding program answers its messages. It has a session, an
 * inbox and turns like any other; a turn is one batch of claimed messages handed over.
 */
import type { UserMessage } from '../../protocol/content.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { CancelCause, TurnEndReason } from '../../protocol/session-events.ts';
import { deferred } from '../base/deferred.ts';
import type { Deferred } from '../base/deferred.ts';
import type { Emitter } from '../base/emitter.ts';
import type { Scope } from '../base/scope.ts';
import type { Session } from '../session/session.ts';
import { checkCause } from './agent.ts';
import type {
  Agent,
  AgentEvents,
  AgentHandle,
  AgentOptions,
  AgentStatus,
  InboxView,
} from './agent.ts';
import type { Parked, PendingInput, PreparedAgent } from './agent-host.ts';
import { Intake, Phase } from './intake.ts';

/** Answers one batch. What it throws is the turn's error; the batch is spent all the same. */
export type OnMessage = (batch: readonly UserMessage[]) => void | Promise<void>;

export interface HostHandle extends AgentHandle {
  /** Batches as they come, for a host without `onMessage`. Ends when the host is disposed. */
  messages(): AsyncIterable<readonly UserMessage[]>;
}

export interface HostAgentOptions {
  readonly session: Session;
  /** What its children get unless they are given something else. */
  readonly options: AgentOptions;
  readonly scope: Scope;
  readonly observers: Emitter<AgentEvents>;
  readonly resumed: boolean;
  /** See `IntakeOptions`. */
  readonly maxPending: number;
  readonly onMessage?: OnMessage;
}

export class HostAgent implements Agent, PreparedAgent {
  readonly id: SessionId;
  readonly session: Session;
  readonly options: AgentOptions;
  readonly #options: HostAgentOptions;
  readonly #intake: Intake;
  readonly #phase: Phase;
  #isTurnOpen = false;
  /** It waits for commits, and opens the next turn then. */
  #isClaiming = false;
  #cause: CancelCause | undefined;
  /** A reader of `messages()` that waits for the next batch. */
  #reader: Deferred<readonly UserMessage[] | undefined> | undefined;
  #hasReader = false;
  /** Ends the turn of the batch that a reader holds. */
  #batchDone: Deferred<void> | undefined;
  #isHalted = false;
  #disposal: Promise<void> | undefined;

  constructor(options: HostAgentOptions) {
    this.#options = options;
    this.options = options.options;
    this.session = options.session;
    this.id = options.session.id;
    this.#phase = new Phase(this, options.observers);
    this.#intake = new Intake({
      agent: this,
      session: options.session,
      observers: options.observers,
      resumed: options.resumed,
      maxPending: options.maxPending,
      onAccepted: () => this.#phase.set('running'),
      onWake: () => this.#run(),
      onSettled: () => {
        if (this.status === 'running') this.#run();
      },
    });
  }

  get agent(): Agent {
    return this;
  }

  get status(): AgentStatus {
    return this.#phase.status;
  }

  get parkedBy(): Parked | undefined {
    return this.#intake.parkedBy;
  }

  get hasTurn(): boolean {
    return this.#intake.hasTurn;
  }

  get inbox(): InboxView {
    return this.#intake.inbox;
  }

  followup(message: UserMessage): void {
    this.#intake.accept(message, 'next-turn', true);
  }

  steer(message: UserMessage): void {
    this.#intake.accept(message, 'next-step', true);
  }

  inject(message: UserMessage): void {
    this.#intake.accept(message, 'next-step', false);
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
    this.#intake.park('interrupt');
    if (this.#isTurnOpen) this.#cause ??= cause;
    // A batch that a reader holds cannot be taken back; its turn ends here.
    this.#batchDone?.resolve();
    // A batch that no reader took yet was never handed over: the host has nothing to run.
    if (!this.#isTurnOpen) this.#phase.set('idle');
  }

  whenIdle(): Promise<void> {
    return this.#phase.whenIdle();
  }

  /**
   * The batches, one turn each: a batch's turn ends when the next one is asked for.
   * @throws {ArgumentError} when the host answers by `onMessage`, or a reader is there already
   */
  async *messages(): AsyncGenerator<readonly UserMessage[]> {
    if (this.#options.onMessage !== undefined || this.#hasReader) {
      throw new ArgumentError(`The host "${this.id}" has someone who answers it already.`);
    }
    this.#hasReader = true;
    try {
      while (!this.#isHalted) {
        this.#reader = deferred();
        this.#run();
        const batch = await this.#reader.promise;
        this.#reader = undefined;
        if (batch === undefined) return;
        yield batch;
        this.#batchDone?.resolve();
      }
    } finally {
      this.#hasReader = false;
      this.#reader = undefined;
      this.#batchDone?.resolve();
    }
  }

  async start(): Promise<void> {}

  activate(): void {
    this.#intake.open();
  }

  halt(cause: CancelCause, pending: PendingInput, fate?: string): void {
    if (this.#isHalted) return;
    this.#isHalted = true;
    this.#intake.halt(fate);
    if (pending === 'discard') this.#intake.clear();
    if (this.#isTurnOpen) this.#cause ??= cause;
    this.#batchDone?.resolve();
    this.#reader?.resolve(undefined);
  }

  dispose(pending: PendingInput): Promise<void> {
    if (this.#disposal !== undefined) return this.#disposal;
    const { promise, resolve } = deferred<void>();
    this.#disposal = promise;
    this.halt({ kind: 'disposed' }, pending);
    this.#intake.close();
    // What came since the halt goes the way of the rest.
    if (pending === 'discard') this.#intake.clear();
    resolve(this.#release());
    return promise;
  }

  async #release(): Promise<void> {
    // Whoever disposes from inside a listener is let finish what is being told.
    await Promise.resolve();
    // A batch that is being answered belongs to the embedding program, which cannot be ended
    // from here: its turn is closed, and its late end changes nothing.
    if (this.#isTurnOpen) this.#endTurn(this.session.lastTurn, undefined);
    this.#phase.set('idle');
    await this.#options.scope.dispose();
  }

  /**
   * Open the next turn if there is one and someone to answer it. What was accepted before this is
   * waited for: only what is committed can be claimed.
   */
  #run(): void {
    if (this.#isTurnOpen || this.#isClaiming) return;
    if (!this.#intake.mayOpenTurn) return this.#phase.set('idle');
    if (!this.#intake.isCommitting) return this.#open();
    this.#isClaiming = true;
    void this.#intake.settled().then(() => {
      this.#isClaiming = false;
      this.#open();
    });
  }

  /** In one tick: the look at what waits, and the claim of it. */
  #open(): void {
    if (!this.#intake.mayOpenTurn) return this.#phase.set('idle');
    // All of it came later: its commit comes here again.
    if (!this.#intake.hasCommittedTurn) return;
    const { onMessage } = this.#options;
    if (onMessage === undefined && this.#reader === undefined) return;
    const turn = this.session.lastTurn + 1;
    // Open before it is told, so that a listener can stop it.
    this.#isTurnOpen = true;
    this.#cause = undefined;
    try {
      this.session.append('turn/start', { turn });
    } catch (error) {
      this.#isTurnOpen = false;
      throw error;
    }
    const batch = this.#isStopped ? [] : this.#intake.claim('turn', turn);
    this.session.append('step/start', { turn, step: 1 });
    for (const message of batch) this.session.append('user/message', message);
    void this.#hand(turn, batch);
  }

  get #isStopped(): boolean {
    return this.#cause !== undefined;
  }

  async #hand(turn: number, batch: readonly UserMessage[]): Promise<void> {
    let failure: unknown;
    try {
      await this.session.committed();
      const { onMessage } = this.#options;
      if (this.#cause === undefined) {
        if (onMessage !== undefined) {
          await onMessage(batch);
        } else if (this.#reader !== undefined) {
          this.#batchDone = deferred();
          this.#reader.resolve(batch);
          await this.#batchDone.promise;
        }
      }
    } catch (error) {
      failure = error ?? new Error('The host threw nothing in particular.');
    }
    this.#batchDone = undefined;
    // Disposed meanwhile: the turn is closed already.
    if (!this.#isTurnOpen || this.session.lastTurn !== turn || this.session.open === undefined)
      return;
    this.#endTurn(turn, failure);
    this.#run();
  }

  #endTurn(turn: number, failure: unknown): void {
    const { code, message } = toErrorRecord(failure);
    const reason: TurnEndReason =
      this.#cause !== undefined
        ? { kind: 'aborted', reason: this.#cause }
        : failure === undefined
          ? { kind: 'completed' }
          : { kind: 'error', error: { code, message } };
    if (this.session.open?.step !== undefined) this.session.append('step/end', { turn, step: 1 });
    this.session.append('turn/end', { turn, reason });
    this.#isTurnOpen = false;
    if (reason.kind === 'error') {
      this.#intake.park('failure');
      const { observers } = this.#options;
      observers.emit('agent/error', { agent: this, turn, error: { code, message } });
    }
  }
}
