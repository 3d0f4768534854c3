/**
 * How an agent takes responsibility for messages: inbox, the latch that keeps stopped work from
 * going on by itself, and the wait for the commit. Synchronous up to the commit; the same for
 * an agent in a thread and for a host.
 */
import { isNotice } from '../../protocol/content.ts';
import type { UserMessage } from '../../protocol/content.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { ArgumentError, SubagentError } from '../../protocol/errors.ts';
import type { ClaimBoundary } from '../../protocol/host-services.ts';
import type { MessageId } from '../../protocol/ids.ts';
import type { InboxTarget } from '../../protocol/session-events.ts';
import { deferred } from '../base/deferred.ts';
import type { Deferred } from '../base/deferred.ts';
import type { Emitter } from '../base/emitter.ts';
import { shapeProblem } from '../session/event-shape.ts';
import type { Session } from '../session/session.ts';
import type { Agent, AgentEvents, AgentStatus } from './agent.ts';
import type { Parked } from './agent-host.ts';
import { Inbox } from './inbox.ts';

export interface IntakeOptions {
  readonly agent: Agent;
  readonly session: Session;
  readonly observers: Emitter<AgentEvents>;
  /** What an earlier life left waiting stays until something waking comes. */
  readonly resumed: boolean;
  /** Messages that may wait; `Infinity`: any number. */
  readonly maxPending: number;
  /** A waking message was accepted: the agent is running from this line on. */
  onAccepted(): void;
  /** Its insertion is committed: it may be claimed. */
  onWake(): void;
  /**
   * One that wakes nobody is committed, or one could not be and was withdrawn, or what waits was
   * woken. What may open a turn, or whether anything may, is perhaps another now.
   */
  onSettled(): void;
}

export class Intake {
  readonly inbox: Inbox;
  readonly #options: IntakeOptions;
  /** Messages of next-step that may open a turn; those of next-turn always may. */
  readonly #waking = new Set<MessageId>();
  /** Those of the last claim that were waking: what is put back is as it was. */
  readonly #wokeClaim = new Set<MessageId>();
  #state: 'unpublished' | 'open' | 'halted' | 'closed' = 'unpublished';
  #fate: string | undefined;
  #parkedBy: Parked | undefined;
  /** What parked until messages were accepted of which none is committed yet. */
  #parkedBefore: Parked | undefined;
  /** Counts what parked: whoever asked before can tell that something did since. */
  #parkings = 0;
  /** Messages that are being put into the inbox, and may open a turn: they are being told of. */
  readonly #accepting: MessageId[] = [];
  /** Insertions that are being committed. The promise is that very insertion. */
  readonly #commits = new Map<MessageId, Promise<void>>();

  constructor(options: IntakeOptions) {
    const { agent, observers } = options;
    this.#options = options;
    this.#parkedBy = options.resumed ? 'resume' : undefined;
    this.inbox = new Inbox(options.session, {
      inserted: (message) => observers.emit('agent/inbox/inserted', { agent, message }),
      discarded: (message) => {
        this.#waking.delete(message.id);
        observers.emit('agent/inbox/discarded', { agent, message });
      },
      claimed: (message, turn) => {
        if (this.#waking.delete(message.id)) this.#wokeClaim.add(message.id);
        observers.emit('agent/inbox/claimed', { agent, message, turn });
      },
    });
  }

  get isOpen(): boolean {
    return this.#state === 'open';
  }

  /** What keeps that which waits from opening a turn; `undefined`: nothing does. */
  get parkedBy(): Parked | undefined {
    return this.#parkedBy;
  }

  /** Something waits that opens a turn, unless it is parked. */
  get hasTurn(): boolean {
    const { nextTurn, nextStep } = this.inbox;
    return nextTurn.length > 0 || nextStep.some((message) => this.#waking.has(message.id));
  }

  /** Something waits that may open a turn now. */
  get mayOpenTurn(): boolean {
    return this.#parkedBy === undefined && this.#state === 'open' && this.hasTurn;
  }

  /** Of what waits, something that woke the agent, and nothing parks it. */
  get hasUnparkedWork(): boolean {
    return this.mayOpenTurn && this.#waking.size > 0;
  }

  /** A waking message is in the inbox, and whoever put it there is not told yet. */
  get isAccepting(): boolean {
    return this.#accepting.length > 0;
  }

  /** Something of what was accepted is not committed or withdrawn yet. */
  get isCommitting(): boolean {
    return this.#commits.size > 0;
  }

  /**
   * Some of it is committed: a turn that opens now has something to run. What was parked before
   * messages came of which none is committed, may have to stay so.
   */
  get hasCommittedTurn(): boolean {
    if (this.#parkedBefore !== undefined) return false;
    const { nextTurn, nextStep } = this.inbox;
    const [first] = nextTurn;
    if (first !== undefined && this.#isCommitted(first)) return true;
    return nextStep.some((message) => this.#waking.has(message.id) && this.#isCommitted(message));
  }

  /** Does nothing once admission has ended. */
  open(): void {
    if (this.#state === 'unpublished') this.#state = 'open';
  }

  /**
   * Discard all that waits, durably: in this line, or, when it comes from a listener of this
   * very session's events, as soon as that event is told.
   */
  clear(): void {
    if (!this.#options.session.isPublishing) return this.inbox.clear();
    // One whose very insertion is being told is in no list yet.
    const { nextStep, nextTurn } = this.inbox;
    const waiting = [...nextStep, ...nextTurn].map(({ id }) => id).concat(this.#accepting);
    queueMicrotask(() => {
      for (const id of waiting) this.inbox.remove(id);
    });
  }

  /** What was claimed for a step that never began waits again; see `clear` for when. */
  putBack(): void {
    if (this.#options.session.isPublishing) queueMicrotask(() => this.#putBack());
    else this.#putBack();
  }

  #putBack(): void {
    // Known as waking before observers run, as in `accept`.
    for (const id of this.#wokeClaim) this.#waking.add(id);
    this.#wokeClaim.clear();
    this.inbox.putBack();
  }

  /**
   * From this line on nothing opens a turn, and only what wakes nobody is accepted. Whoever comes
   * with more is told this fate.
   */
  halt(fate?: string): void {
    this.#state = 'halted';
    this.#fate = fate;
  }

  /** Admission ends in this line, for good. */
  close(): void {
    this.#state = 'closed';
  }

  /** What waits stays until the next waking message: a turn was stopped, or failed. */
  park(by: Parked): void {
    this.#parkedBy = by;
    this.#parkings++;
  }

  /**
   * Resolves when every message accepted so far is committed or withdrawn. What is accepted
   * meanwhile is not waited for, or a claim would wait as long as messages keep coming.
   */
  async settled(): Promise<void> {
    await Promise.all(this.#commits.values());
  }

  /** What may join a turn: of each list what is committed, up to the first that is not. */
  claim(boundary: ClaimBoundary, turn: number): readonly UserMessage[] {
    this.#wokeClaim.clear();
    return this.inbox.claim(boundary, turn, (message) => this.#isCommitted(message));
  }

  /**
   * @param isOwn what the agent's own work leaves there, which has a bound of its own
   * @throws {SubagentError} `DRAINING` before the agent is published and once it is being ended;
   *   `CAPACITY` when too many wait, unless it is its own or a notice of the runtime
   * @throws {ArgumentError} when a message of this id waits already
   */
  accept(message: UserMessage, target: InboxTarget, wakes: boolean, isOwn = false): void {
    const { agent, session } = this.#options;
    if (this.#state !== 'open' && (this.#state !== 'halted' || wakes)) throw this.#refusal();
    const problem = shapeProblem('user/message', message);
    if (problem !== undefined) {
      throw new ArgumentError(
        `The agent "${agent.id}" takes messages made by createUserMessage: ${problem}.`,
      );
    }
    if (!isOwn && !isNotice(message.source)) this.#assertRoom();
    // Known as waking before observers run, which may look at the message or discard it.
    const parkings = this.#parkings;
    if (wakes) {
      this.#waking.add(message.id);
      this.#accepting.push(message.id);
    }
    try {
      this.inbox.insert(target, message);
    } catch (error) {
      if (wakes && !this.inbox.has(message.id)) this.#waking.delete(message.id);
      throw error;
    } finally {
      if (wakes) this.#accepting.pop();
    }
    // An observer of the insertion may have ended the agent: then it waits for a later life. Or it
    // took the message back: then nothing is to be run. Or it stopped the agent: that parked it.
    if (wakes && this.isOpen && this.inbox.has(message.id) && this.#parkings === parkings) {
      this.#parkedBefore ??= this.#parkedBy;
      this.#parkedBy = undefined;
      this.#options.onAccepted();
    }
    const commit: Promise<void> = session.committed().then(
      () => {
        if (wakes) this.#parkedBefore = undefined;
        this.#settle(message.id, commit);
        if (this.#state !== 'open') return;
        if (wakes) this.#options.onWake();
        else this.#options.onSettled();
      },
      (error: unknown) => this.#withdraw(message.id, commit, error),
    );
    this.#commits.set(message.id, commit);
  }

  /**
   * Whatever waits now may open a turn: what is parked, and what wakes nobody by itself. What is
   * not committed yet does so once it is.
   * @throws {SubagentError} `DRAINING`, as `accept`
   */
  wake(): void {
    if (this.#state !== 'open') throw this.#refusal();
    const { nextStep, nextTurn, hasPending } = this.inbox;
    if (!hasPending) return;
    for (const { id } of [...nextStep, ...nextTurn]) this.#waking.add(id);
    this.#parkedBy = undefined;
    // Nor does it stay parked if what came meanwhile cannot be committed.
    this.#parkedBefore = undefined;
    this.#options.onAccepted();
    // A listener of this very session's events may have called, who cannot append anything; and
    // what it does after this counts.
    queueMicrotask(() => {
      if (this.#state === 'open') this.#options.onSettled();
    });
  }

  #assertRoom(): void {
    const { agent, maxPending } = this.#options;
    if (this.inbox.size < maxPending) return;
    throw new SubagentError(
      'CAPACITY',
      `The agent "${agent.id}" takes no message now: ${this.inbox.size} wait for it, and ` +
        `limits.maxPending is ${maxPending}.`,
    );
  }

  #refusal(): SubagentError {
    const { id } = this.#options.agent;
    const fate = this.#fate ?? `${FATES.get(this.#state)}; it accepts nothing`;
    return new SubagentError('DRAINING', `The agent "${id}" ${fate}.`);
  }

  #isCommitted({ id }: UserMessage): boolean {
    return !this.#commits.has(id);
  }

  #withdraw(id: MessageId, commit: Promise<void>, thrown: unknown): void {
    const { agent, observers } = this.#options;
    // A message that was discarded may have been accepted again: that insertion has its own commit.
    if (this.#commits.get(id) === commit) this.inbox.remove(id);
    this.#settle(id, commit);
    const { code, message } = toErrorRecord(thrown);
    observers.emit('agent/error', { agent, error: { code, message } });
    this.#options.onSettled();
  }

  #settle(id: MessageId, commit: Promise<void>): void {
    if (this.#commits.get(id) === commit) this.#commits.delete(id);
    if (this.#commits.size > 0) return;
    // As if none had ever come: what waited before them waits on, and nobody would wake it.
    this.#parkedBy ??= this.#parkedBefore;
    this.#parkedBefore = undefined;
  }
}

const FATES: ReadonlyMap<string, string> = new Map([
  ['unpublished', 'is not published yet'],
  ['halted', 'is being disposed'],
  ['closed', 'was disposed'],
]);

/** Idle or running, told at every real change; and the wait for idleness. */
export class Phase {
  readonly #agent: Agent;
  readonly #observers: Emitter<AgentEvents>;
  #status: AgentStatus = 'idle';
  #idle: Deferred<void> | undefined;

  constructor(agent: Agent, observers: Emitter<AgentEvents>) {
    this.#agent = agent;
    this.#observers = observers;
  }

  get status(): AgentStatus {
    return this.#status;
  }

  set(status: AgentStatus): void {
    if (this.#status === status) return;
    this.#status = status;
    this.#observers.emit('agent/status', { agent: this.#agent, status });
    // A listener may have given it new work: then nobody is told that it is idle.
    if (this.#status !== 'idle') return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  async whenIdle(): Promise<void> {
    while (this.#status !== 'idle') await (this.#idle ??= deferred()).promise;
  }
}
