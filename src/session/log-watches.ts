/**
 * Who waits for which log to change, and where the logs ended that are live no more. A session
 * that nobody waits for costs one look into a map for each of its events.
 */
import type { SessionId } from '../../protocol/ids.ts';
import type { StoreError } from '../../protocol/errors.ts';
import type { Emitter } from '../base/emitter.ts';
import type { SessionObservations } from './observations.ts';
import type { Session } from './session.ts';
import type { SessionPersistence } from './store.ts';
import { deferred } from '../base/deferred.ts';

/** Where the log of a session that is live no more ended for its followers. */
export interface End {
  readonly length: number;
  /** Another owner took it over. */
  readonly error?: StoreError;
}

export interface Watch {
  /** Something changed since the watch began. */
  isStirred: boolean;
  readonly stirred: Promise<void>;
  release(): void;
}

/** What is stored of a session, from when somebody asked for it until this process removes it. */
export interface StoredLog {
  readonly isRemoved: boolean;
}

/** One for all sessions of a process. */
export class LogWatches {
  readonly store: SessionPersistence;
  /** The live session of an id. */
  readonly find: (id: SessionId) => Session | undefined;
  /** Are told of each session that is removed by this process. */
  readonly removals = new Set<(id: SessionId) => void>();
  readonly #watches = new Map<SessionId, Set<() => void>>();
  /** Only who asked for one holds it: whoever stops reading without a word leaves nothing here. */
  readonly #logs = new Map<SessionId, WeakRef<{ isRemoved: boolean }>>();
  readonly #forgotten = new FinalizationRegistry<SessionId>((id) => {
    // Perhaps another was asked for since.
    if (this.#logs.get(id)?.deref() === undefined) this.#logs.delete(id);
  });
  readonly #ends = new WeakMap<Session, End>();
  #isClosed = false;

  constructor(
    store: SessionPersistence,
    observers: Emitter<SessionObservations>,
    find: (id: SessionId) => Session | undefined,
  ) {
    this.store = store;
    this.find = find;
    observers.on('session/created', ({ session }) => {
      this.#ends.delete(session);
      this.stir(session.id);
    });
    observers.on('session/event', ({ session }) => this.stir(session.id));
    observers.on('session/lost', ({ session, error }) =>
      // Only what was committed is surely part of the log that another owner goes on with.
      this.#end(session, { length: session.durable, error }),
    );
    observers.on('session/disposed', ({ session }) => this.#end(session, { length: session.seq }));
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  endOf(session: Session): End | undefined {
    return this.#ends.get(session);
  }

  /** Be told, once, of the next change of a session. Whoever watches releases the watch. */
  watch(id: SessionId): Watch {
    const { promise, resolve } = deferred<void>();
    const stir = (): void => {
      watch.isStirred = true;
      resolve();
    };
    const all = this.#watches.get(id) ?? new Set();
    this.#watches.set(id, all.add(stir));
    const release = (): void => {
      all.delete(stir);
      if (all.size === 0 && this.#watches.get(id) === all) this.#watches.delete(id);
    };
    const watch: Watch = { isStirred: false, stirred: promise, release };
    return watch;
  }

  /** The log that a session of this id has now, or will be given. */
  logOf(id: SessionId): StoredLog {
    const known = this.#logs.get(id)?.deref();
    if (known !== undefined) return known;
    const log = { isRemoved: false };
    this.#logs.set(id, new WeakRef(log));
    this.#forgotten.register(log, id);
    return log;
  }

  /** How many wait for a change of this session. */
  countOf(id: SessionId): number {
    return this.#watches.get(id)?.size ?? 0;
  }

  /** Something of this session changed: whoever waits looks again. */
  stir(id: SessionId): void {
    for (const stir of this.#watches.get(id) ?? []) stir();
  }

  /** A stored session is no more. */
  removed(id: SessionId): void {
    for (const tell of this.removals) tell(id);
    const log = this.#logs.get(id)?.deref();
    if (log !== undefined) log.isRemoved = true;
    this.#logs.delete(id);
    this.stir(id);
  }

  /** All have left: whoever has all that there was is done. */
  close(): void {
    this.#isClosed = true;
    for (const id of this.#watches.keys()) this.stir(id);
  }

  #end(session: Session, end: End): void {
    if (!this.#ends.has(session)) this.#ends.set(session, end);
    this.stir(session.id);
  }
}
