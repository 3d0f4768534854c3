/**
 * Following logs: the events of one session as they are pulled, first those that are stored, then
 * those of the live session. Nothing is queued for whoever reads slowly, and whoever does not
 * read right now is known to nobody: a follower is told of changes only while it waits for one.
 */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { End, LogWatches, StoredLog, Watch } from './log-watches.ts';
import type { Session } from './session.ts';
import { ArgumentError, StoreError } from '../../protocol/errors.ts';
import { assertOptions } from '../base/assert-options.ts';
import { joinSignals, raceSignal } from '../base/deferred.ts';
import { assertSameLog } from './same-log.ts';
import { notFound } from './store-rules.ts';

/** From which event, until when. */
export interface FollowOptions {
  /** The number of the first event that is wanted: at most that of the next one. Default 0. */
  readonly from?: number;
  /** Ends the following with its reason, also while it waits. */
  readonly signal?: AbortSignal;
  /**
   * Go on when the session is not live: wait until it is resumed by this process. Default: the
   * end of what is stored, or of the life that it has now, is the end.
   */
  readonly forever?: boolean;
}

/** The events of one session, each once and in order. Leaving a `for await` ends it. */
export interface Following extends AsyncIterableIterator<SessionEvent>, AsyncDisposable {
  /** End it: what waits for the next event gets `done`. */
  return(): Promise<IteratorResult<SessionEvent, undefined>>;
}

const PAGE = 256;

/** @throws {ArgumentError} */
export function follow(watches: LogWatches, id: SessionId, options: FollowOptions): Following {
  assertOptions('follow', options, { from: 'any', signal: 'signal', forever: 'any' });
  const { from = 0, forever = false } = options;
  if (typeof id !== 'string') throw new ArgumentError('What is followed is named by its id.');
  if (!Number.isSafeInteger(from) || from < 0) {
    throw new ArgumentError('"from" of follow takes the number of an event.');
  }
  if (typeof forever !== 'boolean') {
    throw new ArgumentError('"forever" of follow takes true or false.');
  }
  return new Follower(watches, id, { ...options, from, forever });
}

const DONE = { done: true, value: undefined } as const;

class Follower implements Following {
  readonly #watches: LogWatches;
  readonly #id: SessionId;
  readonly #isForever: boolean;
  readonly #signal: AbortSignal | undefined;
  readonly #ended = new AbortController();
  /** The last of the calls that were made: they are served one after another. */
  #tail: Promise<unknown> = Promise.resolve();
  /** The number of the next event. */
  #seq: number;
  /** The last event that was given. */
  #last: SessionEvent | undefined;
  /** Of the stored ones, those that were read and not given. */
  #page: readonly SessionEvent[] = [];
  #inPage = 0;
  /** The log that was there when this began: what is imported later under its id is another. */
  readonly #log: StoredLog;
  /** The life that is followed, until all of it is given. */
  #session: Session | undefined;
  /** The life of which it is known that its log is the one that was begun. */
  #known: Session | undefined;
  #isOver = false;

  constructor(
    watches: LogWatches,
    id: SessionId,
    options: FollowOptions & { readonly from: number; readonly forever: boolean },
  ) {
    this.#watches = watches;
    this.#id = id;
    this.#seq = options.from;
    this.#isForever = options.forever;
    this.#signal = options.signal;
    // Now and not with the first read: that may be after its end.
    this.#session = watches.find(id);
    this.#log = watches.logOf(id);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<SessionEvent, undefined>> {
    const next = this.#tail.then(() => this.#next());
    this.#tail = next.catch(() => {});
    return next;
  }

  async return(): Promise<IteratorResult<SessionEvent, undefined>> {
    this.#isOver = true;
    this.#ended.abort();
    await this.#tail;
    return DONE;
  }

  async throw(error: unknown): Promise<IteratorResult<SessionEvent, undefined>> {
    await this.return();
    throw error;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  async #next(): Promise<IteratorResult<SessionEvent, undefined>> {
    try {
      // Of a long log all is there at once; others get their turn all the same.
      if (this.#seq % PAGE === PAGE - 1) await nextTick();
      if (this.#isOver) return DONE;
      if (this.#signal?.aborted === true) throw this.#signal.reason;
      const event = await this.#find();
      if (event !== undefined && !this.#isOver) {
        this.#last = event;
        this.#seq = event.seq + 1;
        return { done: false, value: event };
      }
    } catch (error) {
      // What waited is told of its end and not of how it was ended.
      if (!this.#isOver) {
        this.#isOver = true;
        throw error;
      }
    }
    this.#isOver = true;
    return DONE;
  }

  /** The next event, once there is one; `undefined` at the end. */
  async #find(): Promise<SessionEvent | undefined> {
    for (;;) {
      if (this.#inPage < this.#page.length) return this.#page[this.#inPage++];
      this.#page = [];
      // Of a life that is over all is given, whatever became of what was stored.
      if (this.#session === undefined) this.#assertThere();
      // From the live log as soon as there is one: it holds all that is stored.
      this.#session ??= this.#watches.find(this.#id);
      if (this.#session !== undefined) {
        this.#assertKnown(this.#session);
        const event = this.#session.eventsFrom(this.#seq, this.#seq + 1)[0];
        const end = this.#watches.endOf(this.#session);
        if (event !== undefined && this.#seq < (end?.length ?? Infinity)) return event;
        // No await between the look at the log and the watch, or an event could be missed.
        if (end === undefined) await this.#watching(({ stirred }) => this.#until(() => stirred));
        else if (this.#isLast(this.#session, end)) return undefined;
        else this.#session = undefined;
      } else if (this.#watches.isClosed || (await this.#watching((watch) => this.#read(watch)))) {
        return undefined;
      }
    }
  }

  #assertThere(): void {
    if (this.#log.isRemoved) throw notFound(this.#id);
  }

  #assertKnown(session: Session): void {
    if (this.#known !== session) this.#assertGoesOn(session.eventsFrom(this.#seq - 1, this.#seq));
    this.#known = session;
  }

  /** @param before what the log has in front of the next event */
  #assertGoesOn([before]: readonly SessionEvent[]): void {
    if (this.#seq === 0) return;
    if (this.#last !== undefined) return assertSameLog(this.#id, this.#last, before);
    if (before !== undefined) return;
    throw new ArgumentError(
      `"from" of follow is beyond the end: session \`${this.#id}\` has no event ${this.#seq - 1}.`,
    );
  }

  /** Whether nothing can come after this life of the session. */
  #isLast(session: Session, { error }: End): boolean {
    if (error !== undefined) throw error;
    if (!this.#isForever) return true;
    if (this.#last === undefined || this.#last.seq < session.durable) return false;
    throw new StoreError(
      'SESSION_NOT_FOUND',
      `Session \`${this.#id}\` was given up before all of it was kept.`,
    );
  }

  /**
   * The next page of what is stored; returns whether there is no more. The watch began before the
   * reading: a life of the session that began meanwhile, and perhaps ended, is not missed.
   */
  async #read(watch: Watch): Promise<boolean> {
    const { store } = this.#watches;
    try {
      const before = this.#seq === 0 ? 0 : 1;
      const read = await this.#until((signal) =>
        store.readFrom(this.#id, this.#seq - before, signal, before + PAGE),
      );
      this.#assertThere();
      this.#assertGoesOn(read);
      this.#page = read.slice(before);
    } catch (error) {
      // The store was closed under it, after all had left.
      if (this.#watches.isClosed && this.#signal?.aborted !== true) return true;
      throw error;
    }
    this.#inPage = 0;
    if (this.#page.length > 0 || watch.isStirred) return false;
    if (!this.#isForever) return true;
    await this.#until(() => watch.stirred);
    return false;
  }

  async #watching<T>(work: (watch: Watch) => Promise<T>): Promise<T> {
    const watch = this.#watches.watch(this.#id);
    try {
      return await work(watch);
    } finally {
      watch.release();
    }
  }

  /** Listens to the signal only for as long as it waits. */
  async #until<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const { signal, release } = joinSignals([this.#signal, this.#ended.signal]);
    try {
      return await raceSignal(work(signal), signal);
    } finally {
      release();
    }
  }
}
