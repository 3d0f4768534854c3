/**
 * Values that are folded from logs. One registry for a harness: units are registered, and each is
 * folded over each session that somebody asks about, from the log in memory. Owns its folds; the
 * sessions are another's. Nothing is done for a session that nobody asks about.
 */
import type { Json } from '../../../protocol/json.ts';
import type { Logger } from '../../base/logger.ts';
import type { Ownership } from '../../base/scope.ts';
import type { SessionId } from '../../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../../protocol/session-events.ts';
import type { Checkpoint } from '../store.ts';
import type { ProjectionSnapshot, ProjectionUnit } from './projection.ts';
import { isInstance, printed } from '../../../protocol/error-record.ts';
import { ArgumentError } from '../../../protocol/errors.ts';
import { Emitter } from '../../base/emitter.ts';
import { assertSignal } from '../../base/assert-options.ts';
import { owned } from '../../base/scope.ts';
import { Fold } from './fold.ts';
import { Session } from '../session.ts';
import { checkedUnit, failed, usableState, viewOf } from './unit.ts';

/** The state of one unit became another with one event. */
export interface ProjectionChange {
  readonly session: Session;
  readonly key: string;
  /** The event it changed with. */
  readonly seq: number;
  readonly state: Json;
}

/** What is shown of a session by its id, and the header it begins with. */
export interface ReadProjections {
  readonly header: SessionHeader;
  readonly values: ProjectionSnapshot['values'];
}

type Read = (id: SessionId, signal: AbortSignal | undefined) => Promise<ReadProjections>;

type OnEvent = (
  listener: (told: { readonly session: Session; readonly event: SessionEvent }) => void,
) => () => void;

interface Registration {
  readonly unit: ProjectionUnit;
  /** Gone with the registration: who registers again folds again. */
  readonly folds: WeakMap<Session, Fold>;
  count: number;
}

/** Values that are folded from logs, event by event, and kept beside them. */
export class SessionProjections {
  readonly #observers: Emitter<{ changed: ProjectionChange }>;
  readonly #onEvent: OnEvent;
  readonly #read: Read | undefined;
  readonly #registrations = new Map<string, Registration>();
  #stopWatching: (() => void) | undefined;
  #revision = 0;

  /**
   * @param options.onEvent subscribes to the events of all live sessions
   * @param options.read shows what is stored; absent: only what is live is shown
   * @internal
   */
  constructor(options: {
    readonly logger: Logger;
    readonly onEvent: OnEvent;
    readonly read?: Read;
  }) {
    this.#observers = new Emitter(options.logger);
    this.#onEvent = options.onEvent;
    this.#read = options.read;
  }

  /**
   * Another number with each change of what is registered.
   * @internal
   */
  get revision(): number {
    return this.#revision;
  }

  /**
   * What is registered, by key, in that order.
   * @internal
   */
  get units(): readonly ProjectionUnit[] {
    return [...this.#registrations.values()].map(({ unit }) => unit);
  }

  /**
   * Fold this unit too. One of the same key and version is the same unit: it is counted, and gone
   * when all who registered it have undone it. Returns the idempotent disposer.
   * @throws {ArgumentError} for what is no unit, and when another version of it is registered
   */
  register<State, View>(unit: ProjectionUnit<State, View>, ownership: Ownership = {}): () => void {
    const checked = checkedUnit(unit as unknown as ProjectionUnit<never, never>);
    return owned(ownership, () => this.#register(checked));
  }

  /**
   * What every unit with a wire shows of a session by its id, live or not: of a live one as of
   * now, of a stored one as it would be resumed. Reads and folds its log; nobody is woken and
   * nothing is written. Who asks for the same session at the same time shares one reading.
   *
   * @throws the signal's own reason
   * @throws {StoreError} `SESSION_NOT_FOUND`, or what a read failed with
   * @throws {ProjectionError} when one of the units fails
   * @throws {ArgumentError}
   */
  async read(id: SessionId, signal?: AbortSignal): Promise<ReadProjections> {
    if (typeof id !== 'string') throw new ArgumentError('What is read is named by its id.');
    assertSignal('read', signal);
    if (this.#read === undefined) throw new ArgumentError('These projections read no store.');
    return this.#read(id, signal);
  }

  /**
   * What every unit with a wire shows of this live session, as of now: synchronous, one cut.
   * Frozen.
   * @throws {ArgumentError} for an id, or what was read of a session: see `read`
   * @throws {ProjectionError} when one of them fails; there is no part of a snapshot
   */
  snapshot(session: Session): ProjectionSnapshot {
    assertSession(session);
    const shown = [...this.#registrations.values()].filter(({ unit }) => unit.wire !== undefined);
    return snapshotOf(
      session.seq - 1,
      shown.map((registration) => this.#foldOf(registration, session)),
    );
  }

  /**
   * The state of one unit, as of now. Frozen.
   * @throws {ArgumentError} when no such unit is registered
   * @throws {ProjectionError} when it fails
   * @internal
   */
  stateOf(session: Session, key: string): Json {
    assertSession(session);
    const registration = this.#registrations.get(key);
    if (registration === undefined) {
      throw new ArgumentError(`No projection "${printed(key)}" is registered.`);
    }
    return this.#foldOf(registration, session).state();
  }

  /**
   * Be told after each event of a live session, once for each unit whose state became another
   * with it. Listeners only watch: what they throw is logged. Returns the disposer.
   */
  onChanged(
    listener: (change: ProjectionChange) => unknown,
    ownership: Ownership = {},
  ): () => void {
    if (typeof listener !== 'function') {
      throw new ArgumentError('A listener of projections must be a function.');
    }
    return owned(ownership, () => {
      const off = this.#observers.on('changed', listener);
      this.#stopWatching ??= this.#onEvent(({ session, event }) => this.#tell(session, event));
      return () => {
        off();
        if (this.#observers.listenerCount('changed') > 0) return;
        this.#stopWatching?.();
        this.#stopWatching = undefined;
      };
    });
  }

  /**
   * All states of this session, as of now. A unit that fails is left out, and so is a state that
   * is too large to be kept (64 KiB as JSON text). Detached.
   * @throws {ArgumentError} for what is no session
   * @internal
   */
  checkpoint(session: Session): Checkpoint {
    assertSession(session);
    return checkpointOf(
      session.seq - 1,
      [...this.#registrations.values()].map((registration) => this.#foldOf(registration, session)),
    );
  }

  /**
   * What a checkpoint shows by itself, as of its own event: only of rows that are states of the
   * registered version. Never throws.
   * @internal
   */
  viewCheckpoint(checkpoint: Checkpoint): ProjectionSnapshot {
    const values: [string, Json][] = [];
    for (const { unit } of this.#registrations.values()) {
      const state = unit.wire && usableState(unit, rowOf(checkpoint, unit.key));
      if (state === undefined) continue;
      try {
        values.push([unit.key, viewOf(unit, state, 'of a checkpoint')]);
      } catch {
        // As for a row that is no state: whoever needs the value reads the log.
      }
    }
    return frozenSnapshot(checkpoint.seq, values);
  }

  /**
   * Fold a log that is not live: the states of a checkpoint, and the events after it.
   *
   * @param events contiguous, the first of them number `baseSeq`
   * @throws {ProjectionError} when a unit with a wire fails, or when `baseSeq` is above 0 and a
   *   unit has no state in the checkpoint to begin these events with
   */
  restore(
    checkpoint: Checkpoint | undefined,
    events: readonly SessionEvent[],
    baseSeq: number,
  ): { readonly snapshot: ProjectionSnapshot; readonly checkpoint: Checkpoint } {
    const last = baseSeq + events.length - 1;
    const of = 'of a checkpoint';
    const covers =
      checkpoint !== undefined && checkpoint.seq >= baseSeq - 1 && checkpoint.seq <= last;
    const folds = this.units.map((unit) => {
      const state = covers ? usableState(unit, rowOf(checkpoint, unit.key)) : undefined;
      if (state === undefined && baseSeq > 0) {
        throw failed(
          unit,
          of,
          `the checkpoint has no state of it, of version ${unit.stateVersion}, to go on with at event ${baseSeq}; fold the log from event 0`,
        );
      }
      const start = state === undefined ? undefined : { state, seq: checkpoint?.seq ?? -1 };
      const fold = new Fold(unit, of, start);
      fold.push(events.slice(fold.seq + 1 - baseSeq));
      return fold;
    });
    const shown = folds.filter(({ unit }) => unit.wire !== undefined);
    return { snapshot: snapshotOf(last, shown), checkpoint: checkpointOf(last, folds) };
  }

  /**
   * For `Sessions` alone: a session begins with what was kept of it, where that can be used.
   * Contract: the checkpoint is of this very log. Returns whether it served every unit.
   * @internal
   */
  resume(session: Session, checkpoint: Checkpoint): boolean {
    if (checkpoint.seq >= session.seq) return false;
    let servesAll = true;
    for (const { unit, folds } of this.#registrations.values()) {
      const state = usableState(unit, rowOf(checkpoint, unit.key));
      if (state === undefined) servesAll = false;
      else folds.set(session, new Fold(unit, session.id, { state, seq: checkpoint.seq }));
    }
    return servesAll;
  }

  /**
   * For `Sessions` alone: the session has left; nothing is kept of it.
   * @internal
   */
  leave(session: Session): void {
    for (const { folds } of this.#registrations.values()) folds.delete(session);
  }

  #register(unit: ProjectionUnit): () => void {
    const { key, stateVersion } = unit;
    let registration = this.#registrations.get(key);
    if (registration !== undefined && registration.unit.stateVersion !== stateVersion) {
      const { stateVersion: other } = registration.unit;
      throw new ArgumentError(
        `Cannot register version ${stateVersion} of the projection "${key}": version ${other} is.`,
      );
    }
    if (registration === undefined) {
      registration = { unit, folds: new WeakMap(), count: 0 };
      this.#registrations.set(key, registration);
      this.#revision++;
    }
    const mine = registration;
    mine.count++;
    let isRegistered = true;
    return () => {
      if (!isRegistered) return;
      isRegistered = false;
      if (--mine.count > 0) return;
      this.#registrations.delete(key);
      this.#revision++;
    };
  }

  /** Up to the last event there is. */
  #foldOf({ unit, folds }: Registration, session: Session): Fold {
    let fold = folds.get(session);
    if (fold === undefined) folds.set(session, (fold = new Fold(unit, session.id)));
    if (fold.seq < session.seq - 1 && !fold.hasFailed) {
      fold.push(session.eventsFrom(fold.seq + 1));
    }
    return fold;
  }

  #tell(session: Session, event: SessionEvent): void {
    for (const registration of [...this.#registrations.values()]) {
      const { unit, folds } = registration;
      let fold = folds.get(session);
      if (fold === undefined) folds.set(session, (fold = new Fold(unit, session.id)));
      // Nobody was listening to what came before; an event that somebody asked about already, who
      // listens to events as well and was told first, is told as a change all the same.
      const before = fold.seq;
      if (before < event.seq - 1) {
        fold.push(session.eventsFrom(before + 1).slice(0, event.seq - 1 - before));
      }
      const hasChanged = fold.seq < event.seq ? fold.push([event]) : fold.changedAt === event.seq;
      if (!hasChanged || this.#registrations.get(unit.key) !== registration) continue;
      try {
        const change = { session, key: unit.key, seq: event.seq, state: fold.state() };
        this.#observers.emit('changed', Object.freeze(change));
      } catch {
        // Its state is no JSON: it has failed, which whoever asks for it is told.
      }
    }
  }
}

function assertSession(session: unknown): void {
  if (isInstance(session, Session)) return;
  throw new ArgumentError(
    'Projections are asked with a live session, as `agent.session`; by an id, `read` is asked.',
  );
}

/** @throws {ProjectionError} of the first that fails */
function snapshotOf(asOfSeq: number, folds: readonly Fold[]): ProjectionSnapshot {
  return frozenSnapshot(
    asOfSeq,
    folds.map((fold) => [fold.unit.key, fold.view()]),
  );
}

function checkpointOf(seq: number, folds: readonly Fold[]): Checkpoint {
  const rows: [string, Checkpoint['rows'][string]][] = [];
  for (const fold of folds) {
    const row = fold.row();
    if (row !== undefined) rows.push([fold.unit.key, row]);
  }
  return { seq, rows: Object.fromEntries(rows) };
}

const frozenSnapshot = (
  asOfSeq: number,
  values: readonly (readonly [string, Json])[],
): ProjectionSnapshot =>
  Object.freeze({ asOfSeq, values: Object.freeze(Object.fromEntries(values)) });

const rowOf = ({ rows }: Checkpoint, key: string): Checkpoint['rows'][string] | undefined =>
  Object.hasOwn(rows, key) ? rows[key] : undefined;
