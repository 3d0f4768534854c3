/**
 * The sessions of one process: who is live, what is told of them, and when they are kept. Owns
 * the store and every lease taken through it. A session goes one way: prepared (or loaded),
 * entered, accepted, left; until it is accepted nothing of a new one reaches the store.
 */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { StoreError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionEventOf } from '../../protocol/session-events.ts';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../base/logger.ts';
import type { Durability } from './commit-queue.ts';
import type { Inheritance } from './kept-session.ts';
import type { SessionMeta } from './header.ts';
import type { SessionObservations } from './observations.ts';
import type { SessionProjections } from './projections/registry.ts';
import type { SessionPersistence } from './store.ts';
import { printed } from '../../protocol/error-record.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId as sessionId } from '../../protocol/ids.ts';
import { raceSignal } from '../base/deferred.ts';
import { Emitter } from '../base/emitter.ts';
import { newId } from '../base/ids.ts';
import { Patience } from '../base/patience.ts';
import { assertTornDown } from '../base/teardown.ts';
import { Turns } from '../base/turns.ts';
import { CommitQueue, unanswered } from './commit-queue.ts';
import { newHeader } from './header.ts';
import { KeptSession } from './kept-session.ts';
import { LogWatches } from './log-watches.ts';
import { Partings } from './partings.ts';
import { KeptFolds } from './projections/kept-folds.ts';
import { storedClosers } from './repair.ts';
import { restored } from './restored.ts';
import { originOf, Session } from './session.ts';
import { firstEpoch } from './store.ts';
import { giveBack } from './store-rules.ts';
import { StoredSessions } from './stored-sessions.ts';

export type { SessionObservations } from './observations.ts';

export interface PrepareOptions {
  /** Absent: a new one. */
  readonly id?: SessionId;
  readonly meta?: SessionMeta;
  /** Given, even when empty: the log begins with it and a mark of its end. */
  readonly seed?: readonly SessionEvent[];
}

/** Sessions that begin to leave before other work gets a turn, when all do. */
const LEAVING_AT_ONCE = 50;

type FindMissed = (
  session: Session,
  signal: AbortSignal | undefined,
) => Promise<readonly SessionEventOf<'agent/inbox/spliced'>['data'][]>;

/** The sessions of one harness, live and stored. */
export class Sessions extends StoredSessions {
  /** @internal */
  readonly store: SessionPersistence;
  /** @internal */
  readonly observers: Emitter<SessionObservations>;
  readonly #clock: Clock;
  readonly #queue: CommitQueue;
  readonly #folds: KeptFolds;
  protected readonly watches: LogWatches;
  readonly #patience: Patience;
  readonly #live = new Map<SessionId, Session>();
  readonly #kept = new Map<Session, KeptSession>();
  /** Stored sessions that were loaded and have not left; `undefined` while one is loading. */
  readonly #loaded = new Map<SessionId, Session | undefined>();
  readonly #leaving = new Map<SessionId, Promise<void>>();
  readonly #partings: Partings;
  readonly #turns = new Turns();
  #findMissed: FindMissed | undefined;
  #closing: Promise<void> | undefined;

  /** @internal */
  constructor(options: {
    readonly store: SessionPersistence;
    readonly clock: Clock;
    readonly logger: Logger;
    readonly durability?: Durability;
    /** How long an end waits for the store, from the moment in which it is decided. */
    readonly patienceMs?: number;
    /** What they fold is kept beside the logs, by a store that keeps checkpoints. */
    readonly projections?: SessionProjections;
  }) {
    const { store, clock, logger, durability = 'full', patienceMs = 5_000 } = options;
    super();
    this.store = store;
    this.observers = new Emitter(logger);
    this.#clock = clock;
    this.#patience = new Patience(clock, patienceMs, unanswered);
    this.#folds = new KeptFolds(store, options.projections);
    this.watches = new LogWatches(store, this.observers, (id) => this.#live.get(id));
    this.#queue = new CommitQueue({ store, clock, logger, isBatched: durability === 'batched' });
    this.#partings = new Partings({ store, queue: this.#queue, clock, logger, patienceMs });
    store.onLost?.((id, epoch, error) => {
      for (const kept of this.#kept.values()) {
        if (kept.session.id === id && kept.epoch === epoch) kept.lose(error);
      }
    });
  }

  /** The live session of this id. */
  get(id: SessionId): Session | undefined {
    return this.#live.get(id);
  }

  /** The live sessions, in the order they were entered. */
  list(): readonly Session[] {
    return [...this.#live.values()];
  }

  /**
   * Build a new session that nobody sees and nothing keeps. Whoever prepares it enters it or
   * releases it.
   * @throws {ArgumentError} when the id is live, or an option is not what it must be. @internal
   */
  prepare(options: PrepareOptions = {}): Session {
    this.assertOpen();
    const { id = sessionId(newId()), meta = {}, seed } = options;
    if (this.#live.has(id) || this.#loaded.has(id)) {
      throw new ArgumentError(`Session \`${id}\` is live or being loaded already.`);
    }
    const { seedLength } = meta;
    if (seedLength !== undefined && seedLength > (seed?.length ?? 0)) {
      throw new ArgumentError(`Session \`${id}\` cannot inherit more events than its seed has.`);
    }
    const header = newHeader(id, this.#clock.now(), meta);
    const session = new Session({ header, clock: this.#clock, ...(seed && { seed }) });
    if (session.open !== undefined) {
      throw new ArgumentError(`The seed of session \`${id}\` ends inside a turn.`);
    }
    const inheritance = seed && this.#inheritanceOf(seed);
    this.#keep(session, { epoch: firstEpoch(), stored: undefined, inheritance });
    if (seed !== undefined) markEndOfSeed(session);
    return session;
  }

  /**
   * Become the owner of a stored session: a turn that a crash cut off is closed first, durably.
   * The session is not live yet, and is kept from the start. Whoever loads it enters it or
   * releases it.
   * @throws {StoreError} `SESSION_NOT_FOUND`, `SESSION_OWNED_ELSEWHERE`, `STORE_CORRUPT`,
   *   `STORE_FORMAT_UNSUPPORTED`, or what a write failed with.
   * @throws {ArgumentError} when the session is live, or somebody loads it. @internal
   */
  async load(id: SessionId, signal?: AbortSignal): Promise<Session> {
    const free = await this.reserve(id, signal);
    let isOwned = false;
    try {
      const { epoch } = await this.store.acquire(id);
      isOwned = true;
      const { header, events } = await this.store.inspect(id, signal);
      const closers = storedClosers(header, events);
      // Built before anything is written: a log that cannot be read is not added to.
      // Nobody else can add to it: its id is reserved here, and its lease is held.
      const log = { header, events: [...events, ...closers] };
      const steps = { clock: this.#clock, turns: this.#turns };
      const session = await restored(log, steps, signal);
      let hasCheckpoint = await this.#folds.resume(session, signal);
      signal?.throwIfAborted();
      if (closers.length > 0) {
        const checkpoint = this.#folds.checkpointOf(session)?.();
        await this.store.append([
          { id, epoch, events: closers, ...(checkpoint && { checkpoint }) },
        ]);
        hasCheckpoint = true;
      }
      signal?.throwIfAborted();
      const missed = (await this.#findMissed?.(session, signal)) ?? [];
      this.assertOpen();
      this.#loaded.set(id, session);
      this.#keep(session, { epoch, stored: session.seq, hasCheckpoint });
      // The mark comes last: with nothing more to add, the next opening finds it and adds none.
      for (const splice of missed) session.append('agent/inbox/spliced', splice);
      markEndOfSeed(session);
      return session;
    } catch (error) {
      if (isOwned) await giveBack(this.store, [id]);
      free();
      throw error;
    }
  }

  /**
   * Once: how to find what was to be in a session's inbox when it was left behind. It is put there
   * when the session is loaded, before the mark; what the search rejects with fails the load.
   * @internal
   */
  onLoading(findMissed: FindMissed): void {
    this.#findMissed = findMissed;
  }

  /**
   * Make a session live: it is found by its id, and its events are told.
   * @throws {ArgumentError} when another of its id is live, or it was not made here.
   * Whatever a listener of `session/created` throws is passed on, and the session is not live.
   * @internal
   */
  enter(session: Session): void {
    this.assertOpen();
    this.#keptOf(session);
    const { id } = session;
    if (this.#live.has(id) || this.#leaving.has(id)) {
      throw new ArgumentError(`Session \`${id}\` is live already.`);
    }
    this.#live.set(id, session);
    try {
      this.observers.emitOrThrow('session/created', { session });
    } catch (error) {
      this.#live.delete(id);
      this.observers.emit('session/disposed', { session });
      throw error;
    }
  }

  /**
   * Begin to keep a session. All of it so far is written with this tick, as one transaction
   * with what other sessions append in the same tick. Idempotent; when that first write fails,
   * the log is held back again, and calling this once more is how to try again. @internal
   */
  accept(session: Session): void {
    this.#keptOf(session).accept();
  }

  /** Write now. @throws {StoreError} of that write. */
  flush(session: Session): Promise<void> {
    const done = this.#queue.flush(this.#keptOf(session));
    return this.#patience.hasBegun(session) ? this.inTime(session, done) : done;
  }

  /**
   * The end of a session, or of all of them, is decided: from here on the store has the time that
   * it is given to answer what that end waits for. Idempotent. @internal
   */
  expectEnd(of: Session | 'all'): void {
    if (of !== 'all') return this.#patience.begin(of);
    for (const session of [...this.#kept.keys()]) this.#patience.begin(session);
    this.#patience.begin(this);
  }

  /**
   * Wait for the store on behalf of a session that ends. @throws {StoreError} `STORE_IO` @internal
   */
  inTime<T>(session: Session, answer: Promise<T>): Promise<T> {
    return this.#patience.await(session, answer);
  }

  /**
   * The end of a live session here: the rest of it is written, its lease given back, and
   * everyone told. A session that was never kept leaves no trace. All callers wait for the one
   * leaving.
   * @throws {StoreError} when the rest could not be written; it has left all the same. @internal
   */
  leave(session: Session): Promise<void> {
    const { id } = session;
    if (this.#live.get(id) !== session) return this.release(session);
    const leaving = this.#leaving.get(id);
    if (leaving !== undefined) return leaving;
    const left = this.#leave(session).finally(() => this.#leaving.delete(id));
    this.#leaving.set(id, left);
    return left;
  }

  /** Give up a session that never became live. Does nothing for one that is given up. @internal */
  async release(session: Session): Promise<void> {
    const kept = this.#kept.get(session);
    if (kept === undefined) return;
    if (this.#live.get(session.id) === session) return this.leave(session);
    const givenUp = this.#giveUp(kept).finally(() => this.#folds.leave(session));
    await this.inTime(session, givenUp);
  }

  /** Leave every session, then close the store. Idempotent. @internal */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.expectEnd('all');
    const failures: unknown[] = [];
    const inTime = (answer: Promise<void>): Promise<void> =>
      this.#patience.await(this, answer).catch((error: unknown) => void failures.push(error));
    // Nothing is entered any more. One that leaves by itself between two parts leaves once.
    const leaving: Promise<void>[] = [];
    for (const session of [...this.#kept.keys()]) {
      leaving.push(this.leave(session));
      leaving.at(-1)?.catch(() => {});
      if (leaving.length % LEAVING_AT_ONCE === 0) await nextTick();
    }
    const settled = await Promise.allSettled(leaving);
    for (const one of settled) if (one.status === 'rejected') failures.push(one.reason);
    this.watches.close();
    // It closes when the last of them has parted, whether or not that is still waited for.
    const parted = this.#partings.close().finally(() => this.#queue.settled());
    await inTime(parted.finally(() => this.store.close()));
    assertTornDown('The store', failures);
  }

  async #leave(session: Session): Promise<void> {
    const kept = this.#keptOf(session);
    const failures: unknown[] = [];
    kept.isLeaving = true;
    // What is appended while a flush runs is flushed too.
    while (kept.phase === 'kept' && !kept.isStored && failures.length === 0) {
      const flushed = this.#queue.flush(kept);
      await this.inTime(session, flushed).catch((error: unknown) => void failures.push(error));
    }
    const givenUp = this.#giveUp(kept, failures[0]);
    await this.inTime(session, givenUp).catch((error: unknown) => void failures.push(error));
    // Only now, that the store alone tells of it: at no instant do both not.
    this.#live.delete(session.id);
    this.observers.emit('session/disposed', { session });
    this.#folds.leave(session);
    if (failures.length > 0) throw failures[0];
  }

  async #giveUp(kept: KeptSession, why?: unknown): Promise<void> {
    const { session } = kept;
    this.#kept.delete(session);
    try {
      await this.#partings.begin(kept, why);
    } finally {
      if (this.#loaded.get(session.id) === session) this.#loaded.delete(session.id);
    }
  }

  #keep(
    session: Session,
    as: {
      readonly epoch: number;
      readonly stored: number | undefined;
      readonly inheritance?: Inheritance | undefined;
      readonly hasCheckpoint?: boolean;
    },
  ): void {
    const onLost = (error: StoreError): void =>
      this.observers.emit('session/lost', { session, error });
    const checkpointOf = this.#folds.checkpointOf(session);
    const kept = new KeptSession(this.#queue, { session, ...as, checkpointOf, onLost });
    this.#kept.set(session, kept);
    session.keepWith(kept);
    session.onAppend((event) => {
      if (kept.phase === 'kept') this.#queue.add(kept);
      if (this.#live.get(session.id) === session) {
        this.observers.emit('session/event', { session, event });
      }
    });
  }

  /** By the session and not by its id: another store may hold a session of the same id. */
  #inheritanceOf(seed: readonly SessionEvent[]): Inheritance | undefined {
    const origin = originOf(seed);
    const from = origin && this.#kept.get(origin);
    return from && { from, count: seed.length };
  }

  #keptOf(session: Session): KeptSession {
    const kept = this.#kept.get(session);
    if (kept === undefined) {
      const id = printed((session as Session | undefined)?.id);
      throw new ArgumentError(`Session \`${id}\` was not made here, or has left.`);
    }
    return kept;
  }

  protected async reserve(id: SessionId, signal: AbortSignal | undefined): Promise<() => void> {
    await this.left(id, signal);
    await raceSignal(this.#partings.settle(id), signal);
    signal?.throwIfAborted();
    this.assertOpen();
    if (this.#live.has(id) || this.#loaded.has(id)) {
      throw new ArgumentError(`Session \`${id}\` is live or being loaded already.`);
    }
    this.#loaded.set(id, undefined);
    return () => this.#loaded.delete(id);
  }

  /** A former life of this id has left, whether or not its last write worked. */
  protected async left(id: SessionId, signal: AbortSignal | undefined): Promise<void> {
    const leaving = this.#leaving.get(id)?.catch(() => {});
    if (leaving !== undefined) await raceSignal(leaving, signal);
  }

  protected assertOpen(): void {
    if (this.#closing !== undefined) throw new ArgumentError('The sessions are closed.');
  }
}

function markEndOfSeed(session: Session): void {
  if (session.eventsFrom(session.seq - 1)[0]?.type !== 'session/end-seed') {
    session.append('session/end-seed', {});
  }
}
