/** One session as the group commit sees it: what of it is written, and who waits for that. */
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Deferred } from '../base/deferred.ts';
import type { Keeping, Session } from './session.ts';
import type { Checkpoint, StoreAppend } from './store.ts';
import { StoreError } from '../../protocol/errors.ts';
import { deferred } from '../base/deferred.ts';

/** Who writes. */
interface Writing {
  readonly isBatched: boolean;
  /** Something of this session is to be written, with everything else of this tick. */
  add(kept: KeptSession): void;
}

interface Waiter {
  readonly upTo: number;
  readonly done: Deferred<void>;
  /** Somebody is told by it that what they said was accepted. */
  readonly isAcceptance: boolean;
}

export interface Job {
  readonly kept: KeptSession;
  readonly append: StoreAppend;
  readonly upTo: number;
}

/** The kept session that a new one begins with the first `count` events of. */
export interface Inheritance {
  readonly from: KeptSession;
  readonly count: number;
}

/**
 * `held`: nothing is written. `kept`: everything is. `lost`: another owner took over, and what
 * was not committed is dropped. `gone`: this process gave it up.
 */
type Phase = 'held' | 'kept' | 'lost' | 'gone';

/** One session as the queue sees it. */
export class KeptSession implements Keeping {
  readonly session: Session;
  readonly epoch: number;
  readonly #queue: Writing;
  readonly #onLost: (error: StoreError) => void;
  readonly #waiters: Waiter[] = [];
  #phase: Phase;
  #hasRow: boolean;
  #stored: number;
  #failure: StoreError | undefined;
  /** Why it was given up before all of it was kept. */
  #why: unknown;
  /** Known until the first write is over. */
  #inheritance: Inheritance | undefined;
  /** As it was when it was given up. */
  #given: { stored: number; hasRow: boolean; isRefused: boolean } | undefined;
  readonly #checkpointOf: (() => Checkpoint) | undefined;
  #hasCheckpoint: boolean;
  /** The last write failed for this session alone. */
  isApart = false;
  /** What is written from now on may be the last of it here. */
  isLeaving = false;

  constructor(
    queue: Writing,
    init: {
      readonly session: Session;
      readonly epoch: number;
      /** Events the store holds already; `undefined` for a session it has never seen. */
      readonly stored: number | undefined;
      readonly inheritance?: Inheritance | undefined;
      /** Of the whole log as it is; never throws. Absent: the store keeps none. */
      readonly checkpointOf?: (() => Checkpoint) | undefined;
      /** The store has one that can be used. */
      readonly hasCheckpoint?: boolean;
      readonly onLost: (error: StoreError) => void;
    },
  ) {
    this.#queue = queue;
    this.session = init.session;
    this.epoch = init.epoch;
    this.#hasRow = init.stored !== undefined;
    this.#phase = this.#hasRow ? 'kept' : 'held';
    this.#stored = init.stored ?? 0;
    this.#inheritance = init.inheritance;
    this.#checkpointOf = init.checkpointOf;
    this.#hasCheckpoint = init.hasCheckpoint ?? false;
    this.#onLost = init.onLost;
  }

  get phase(): Phase {
    return this.#phase;
  }

  get durable(): number {
    return this.#stored;
  }

  /** The store knows this session. */
  get hasRow(): boolean {
    return this.#hasRow;
  }

  /** Nothing was asked to be written yet. */
  get isHeldBack(): boolean {
    return this.#phase === 'held' && this.#failure === undefined;
  }

  get isStored(): boolean {
    return this.#hasRow && this.#stored === this.session.seq;
  }

  /** When it was given up, somebody was told that what they said is not kept. */
  get isRefused(): boolean {
    return this.#given?.isRefused === true;
  }

  /** Write everything from now on. After a first write that failed: try it again. */
  accept(): void {
    if (this.#phase !== 'held') return;
    this.#phase = 'kept';
    this.#failure = undefined;
    this.#queue.add(this);
  }

  committed(): Promise<void> {
    const over = this.#over();
    if (over !== undefined) return Promise.reject(over);
    if (this.isStored || this.#queue.isBatched) return Promise.resolve();
    if (this.#phase === 'kept') this.#queue.add(this);
    return this.wait(true);
  }

  /** Resolves when everything appended so far is stored. */
  wait(isAcceptance = false): Promise<void> {
    const over = this.#over();
    if (over !== undefined) return Promise.reject(over);
    if (this.isStored) return Promise.resolve();
    const done = deferred<void>();
    this.#waiters.push({ upTo: this.session.seq, done, isAcceptance });
    return done.promise;
  }

  /** What is to be written, or `undefined`. */
  job(): Job | undefined {
    if (this.#phase !== 'kept' || this.isStored) return undefined;
    const { id, header, seq } = this.session;
    const events: readonly SessionEvent[] = this.session.eventsFrom(this.#stored);
    const row = this.#hasRow ? {} : { header, ...this.#inherits() };
    const append = { id, epoch: this.epoch, ...row, events, ...this.#checkpoint(events) };
    return { kept: this, append, upTo: seq };
  }

  wrote({ append, upTo }: Job): void {
    this.#hasRow = true;
    this.#hasCheckpoint ||= append.checkpoint !== undefined;
    this.#inheritance = undefined;
    this.#stored = upTo;
    this.#failure = undefined;
    this.isApart = false;
    this.#settle(upTo);
  }

  /** Returns whether this failure is another than the one before. */
  failed(upTo: number, error: StoreError): boolean {
    const isNews = this.#failure?.code !== error.code;
    this.#failure = error;
    if (this.#phase !== 'kept') return isNews;
    if (!this.#hasRow) {
      // Its creation failed, so there is nothing to go on with: the log is held back again, and
      // whoever gives it up now leaves no row.
      this.#phase = 'held';
      this.#settle(Infinity, error);
    } else if (error.code === 'STALE_EPOCH' || error.code === 'SESSION_NOT_FOUND') {
      this.lose(error);
    } else {
      this.#settle(upTo, error);
    }
    return isNews;
  }

  /** Another owner has it. */
  lose(error: StoreError): void {
    if (this.#phase !== 'kept') return;
    this.#phase = 'lost';
    this.#failure = error;
    this.#settle(Infinity, error);
    this.#onLost(error);
  }

  /**
   * Nothing of it is written any more, but for what `late` says.
   * @param why what the last write of it failed with, or that it was not answered
   */
  giveUp(why?: unknown): void {
    this.#why = why;
    this.#given = {
      stored: this.#stored,
      hasRow: this.#hasRow,
      isRefused: this.#waiters.some(({ isAcceptance }) => isAcceptance),
    };
    if (this.#phase !== 'lost') this.#phase = 'gone';
    this.#inheritance = undefined;
    const over = this.#over();
    if (over !== undefined) this.#settle(Infinity, over);
  }

  /**
   * What is to be done when a write was kept after all that was in flight while the session was
   * given up. Its callers were told that it was not:
   * - `delete`: all that it holds was refused, and a start that was refused leaves no row;
   * - an append: of all that came later, which takes back what was refused.
   */
  late(): 'delete' | StoreAppend | undefined {
    const { stored, hasRow, isRefused } = this.#given ?? {};
    if (this.#phase !== 'gone' || !this.#hasRow) return undefined;
    if (hasRow === false && isRefused === true) return 'delete';
    if (this.isStored || (hasRow === true && stored === this.#stored)) return undefined;
    const events = this.session.eventsFrom(this.#stored);
    return { id: this.session.id, epoch: this.epoch, events, ...this.#checkpoint(events) };
  }

  /**
   * Said only of a session that is kept and has its row: what is stored under its id is then a
   * beginning of its very log, and stays so while it is held. One whose creation may still fail,
   * or that left, might find another session under its id. How much of it is stored does not
   * matter: the store copies what it has, and takes the rest from `events`.
   */
  #inherits(): Pick<StoreAppend, 'inherits'> {
    if (this.#inheritance === undefined) return {};
    const { from, count } = this.#inheritance;
    if (from.#phase !== 'kept' || !from.#hasRow) return {};
    return { inherits: { id: from.session.id, count } };
  }

  /**
   * What is folded of the log up to the last of these events, in the same transaction as they:
   * it may lag behind the log, and never knows more. Made where a listing would miss it, and
   * not for every message: with who a child is, with the end of a turn, with what is written
   * last, and when the store has none.
   */
  #checkpoint(events: readonly SessionEvent[]): Pick<StoreAppend, 'checkpoint'> {
    if (this.#checkpointOf === undefined) return {};
    if (this.#hasCheckpoint && !this.isLeaving && !events.some(isWorthACheckpoint)) return {};
    const checkpoint = this.#checkpointOf();
    return Object.keys(checkpoint.rows).length === 0 ? {} : { checkpoint };
  }

  #over(): StoreError | undefined {
    if (this.#phase === 'gone') {
      if (this.isStored) return undefined;
      if (this.#why instanceof StoreError) return this.#why;
      return new StoreError(
        'SESSION_NOT_FOUND',
        `Session \`${this.session.id}\` was given up before all of it was kept.`,
      );
    }
    return this.#phase === 'kept' ? undefined : this.#failure;
  }

  #settle(upTo: number, error?: StoreError): void {
    // In the order they came, so their numbers only grow.
    while (this.#waiters[0] !== undefined && this.#waiters[0].upTo <= upTo) {
      const { done } = this.#waiters.shift() as Waiter;
      if (error === undefined) done.resolve();
      else done.reject(error);
    }
  }
}

const isWorthACheckpoint = ({ type }: SessionEvent): boolean =>
  type === 'turn/end' || type === 'subagent/descriptor';
