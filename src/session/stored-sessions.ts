import type { SessionId } from '../../protocol/ids.ts';
import type { ExportedSessions } from './export-lines.ts';
import type { FollowOptions, Following } from './follow.ts';
import type { ImportOptions } from './import-lines.ts';
import type { LogWatches } from './log-watches.ts';
import type { Offline } from './offline.ts';
import type { RemoveOptions } from './removal.ts';
import type { Session } from './session.ts';
import type { DamagedSession, PackedSession, SessionPersistence, StoredSession } from './store.ts';
import { StoreError } from '../../protocol/errors.ts';
import { assertSignal } from '../base/assert-options.ts';
import { exportLines } from './export-lines.ts';
import { follow } from './follow.ts';
import { importLines } from './import-lines.ts';
import { removeSessions } from './removal.ts';
import { storedClosers } from './repair.ts';

/** What can be done with sessions whether or not they are live. */
export abstract class StoredSessions {
  abstract readonly store: SessionPersistence;
  protected abstract readonly watches: LogWatches;

  /** The live sessions, in the order they were entered. */
  abstract list(): readonly Session[];
  abstract get(id: SessionId): Session | undefined;
  protected abstract assertOpen(): void;
  /** See `Offline`. */
  protected abstract reserve(id: SessionId, signal: AbortSignal | undefined): Promise<() => void>;
  /** A former life of this id has left, whether or not its last write worked. */
  protected abstract left(id: SessionId, signal: AbortSignal | undefined): Promise<void>;

  /** Whether the store has a session of this id, live or not. @throws {StoreError} */
  async isStored(id: SessionId): Promise<boolean> {
    this.assertOpen();
    try {
      await this.store.readFrom(id, Number.MAX_SAFE_INTEGER);
      return true;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'SESSION_NOT_FOUND') return false;
      throw error;
    }
  }

  /**
   * A session as it stands: a live one with its events so far, perhaps inside a turn; a stored
   * one as it would be resumed, with nothing written.
   */
  async inspect(id: SessionId, signal?: AbortSignal): Promise<StoredSession> {
    this.assertOpen();
    assertSignal('inspect', signal);
    await this.left(id, signal);
    const live = this.get(id);
    if (live !== undefined) return { header: live.header, events: live.events };
    const { header, events } = await this.store.inspect(id, signal);
    return { header, events: [...events, ...storedClosers(header, events)] };
  }

  /**
   * A session that is not live, as it is stored: packed, where the store can give it so, and
   * without what would close a turn in it. `undefined` for one that is live.
   */
  async readStored(
    id: SessionId,
    signal?: AbortSignal,
  ): Promise<PackedSession | StoredSession | undefined> {
    this.assertOpen();
    await this.left(id, signal);
    if (this.get(id) !== undefined) return undefined;
    return this.store.inspectPacked?.(id, signal) ?? this.store.inspect(id, signal);
  }

  /**
   * The log of one session, event by event as it is pulled: what is stored, then what a live
   * session appends, as soon as it does and so before it is durable. A log that a crash cut off
   * is followed as it is stored.
   *
   * It rejects with an `ArgumentError` when `from` is beyond the end.
   * The iterator rejects with a `StoreError`: `SESSION_NOT_FOUND` for an unknown or removed id,
   * also when another log was imported under it,
   * `STALE_EPOCH` when another process took the session over, or what a read failed with. The end
   * of the harness ends it without an error.
   * @throws {ArgumentError}
   */
  follow(id: SessionId, options: FollowOptions = {}): Following {
    this.assertOpen();
    return follow(this.watches, id, options);
  }

  /**
   * Sessions as JSON Lines, each with its line end: of a live one what it holds when its turn
   * comes, also a turn that is open and what is not stored yet. Reads a page at a time, as it is
   * pulled.
   *
   * A stored session that is damaged hides no other: a line names it, the import leaves it out,
   * and `onDamaged` is told.
   *
   * The iterator rejects with a `StoreError`: `SESSION_NOT_FOUND` before the first line, or for
   * one that is removed meanwhile, or what a read failed with.
   * @throws {ArgumentError}
   */
  exportLines(
    what: ExportedSessions,
    signal?: AbortSignal,
    onDamaged?: (session: DamagedSession) => void,
  ): AsyncIterable<string> {
    this.assertOpen();
    assertSignal('exportLines', signal);
    return exportLines(this.#offline(), what, { signal, onDamaged });
  }

  /**
   * Take in what `exportLines` gave, line by line. Each session is written when its end was read,
   * in one transaction, and held until all are: what fails in the middle, as a line that is
   * refused, ends it, and all of it is taken back. What the end of the process leaves behind is
   * found to be there when the same lines are imported again with the ids they have.
   * Resolves to the sessions by their id in the lines, with their id here, without those that the
   * export says are damaged.
   *
   * @throws {ArgumentError} for a line that is not what it must be, for a live session, and for an
   *   id that is stored already with another log
   * @throws {StoreError} `SESSION_OWNED_ELSEWHERE` for an id that another process made meanwhile, or
   *   holds, as by an import that may still take it back; `STORE_FORMAT_UNSUPPORTED`, or what a
   *   write failed with
   */
  async importLines(
    lines: AsyncIterable<string> | Iterable<string>,
    options: ImportOptions = {},
  ): Promise<ReadonlyMap<SessionId, SessionId>> {
    this.assertOpen();
    return importLines(this.#offline(), lines, options);
  }

  /**
   * Remove a session that is not live, and all that descends from it. Nothing is removed unless
   * all of it can be; what ends the removal itself in the middle leaves a tree without its lowest
   * sessions. Resolves to what was removed, parents first.
   *
   * @throws {ArgumentError} naming one that is live or being loaded here
   * @throws {StoreError} `SESSION_NOT_FOUND`, `SESSION_OWNED_ELSEWHERE` naming one that another
   *   living process holds, or what a write failed with
   */
  async remove(
    id: SessionId,
    options: RemoveOptions = {},
    signal?: AbortSignal,
  ): Promise<readonly SessionId[]> {
    this.assertOpen();
    return removeSessions(this.#offline(), id, options, signal);
  }

  /** Give the space of what was removed back to the system. @throws {StoreError} */
  async vacuum(signal?: AbortSignal): Promise<void> {
    this.assertOpen();
    assertSignal('vacuum', signal);
    await this.store.vacuum?.(signal);
  }

  #offline(): Offline {
    return {
      store: this.store,
      list: () => this.list(),
      get: (id) => this.get(id),
      reserve: (id, signal) => this.reserve(id, signal),
      isStored: (id) => this.isStored(id),
      removed: (id) => this.watches.removed(id),
      onRemoved: (listener) => {
        this.watches.removals.add(listener);
        return () => void this.watches.removals.delete(listener);
      },
    };
  }
}
