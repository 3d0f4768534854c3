/**
 * Sessions in one SQLite file. One connection on the main thread is the only writer of this
 * process; other processes may have the same file open. Every write is one transaction and is
 * fenced by the session's epoch. Not for network file systems.
 */
import { resolve } from 'node:path';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { Clock } from '../base/clock.ts';
import type { SqlValue } from './sql.ts';
import type { EncodedEntry } from './event-codec.ts';
import type { StoreOwner } from './store-owner.ts';
import type {
  Checkpoint,
  DamagedSession,
  OnLost,
  PackedSession,
  SessionOutline,
  SessionPersistence,
  StoreAppend,
  StoredSession,
} from './store.ts';
import { census } from '../base/census.ts';
import { systemClock } from '../base/clock.ts';
import { decodeEvent, decodeHeader, encodeEntry } from './event-codec.ts';
import { SqliteFile } from './sqlite-file.ts';
import { SqliteLeases } from './sqlite-leases.ts';
import type { SessionRow } from './sqlite-log.ts';
import { findRow, pagesOf, seek } from './sqlite-log.ts';
import { listHeaders, listHeadersBelow, outlineBelow, readCheckpoints } from './sqlite-listing.ts';
import { STATEMENTS } from './sqlite-schema.ts';
import { newOwner } from './store-owner.ts';
import { appendProblem } from './store-rules.ts';

/** Which file, and what a write in it survives. */
export interface SqliteStoreOptions {
  /** A file, made when it does not exist; its folder must. `:memory:` keeps nothing. */
  readonly path: string;
  /**
   * What a resolved write survives.
   * - `full` (the default): the end of the process, of the system, and a power cut.
   * - `process`: the end of the process. A power cut or a crash of the system can lose the last
   *   writes; what is before them stays whole.
   * - `batched`: as `process` in the file. The sessions above do not wait for writes either, so
   *   the end of the process loses what was appended in the last 200 ms.
   */
  readonly durability?: 'full' | 'process' | 'batched';
  /** @internal */
  readonly clock?: Clock;
  /**
   * Whom the file sees as the holder of this handle's sessions. Absent: this process.
   * @internal
   */
  readonly owner?: StoreOwner;
}

/**
 * Open or make the store.
 * @throws {StoreError} `STORE_IO` or `STORE_READ_ONLY` when the file cannot be opened,
 *   `STORE_CORRUPT` when it is no database, `STORE_FORMAT_UNSUPPORTED` when a newer version or
 *   something else wrote it.
 */
export function openSqliteStore(options: SqliteStoreOptions): SqliteStore {
  return new SqliteStore(options);
}

export class SqliteStore implements SessionPersistence {
  readonly #file: SqliteFile;
  readonly #leases: SqliteLeases;
  /** As it was meant when it was opened, wherever the process goes. */
  readonly #path: string | undefined;
  readonly #uncount: () => void;
  #closing: Promise<void> | undefined;

  constructor(options: SqliteStoreOptions) {
    const { path, durability = 'full', clock = systemClock, owner = newOwner() } = options;
    this.#file = new SqliteFile(path, durability, clock);
    this.#path = path === ':memory:' ? undefined : resolve(path);
    this.#leases = new SqliteLeases(this.#file, owner, clock);
    this.#uncount = census.add('store');
  }

  get file(): string | undefined {
    return this.#path;
  }

  async list(
    signal?: AbortSignal,
    onDamaged?: (session: DamagedSession) => void,
  ): Promise<readonly SessionHeader[]> {
    return listHeaders(this.#file, signal, onDamaged);
  }

  async listBelow(
    roots: readonly SessionId[],
    levels: number,
    signal?: AbortSignal,
    onDamaged?: (session: DamagedSession) => void,
  ): Promise<readonly SessionHeader[]> {
    return listHeadersBelow(this.#file, roots, levels, signal, onDamaged);
  }

  async outlineBelow(
    roots: readonly SessionId[],
    levels: number,
    signal?: AbortSignal,
    onDamaged?: (session: DamagedSession) => void,
  ): Promise<readonly SessionOutline[]> {
    return outlineBelow(this.#file, roots, levels, signal, onDamaged);
  }

  async checkpoints(
    ids: readonly SessionId[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<SessionId, Checkpoint>> {
    return readCheckpoints(this.#file, ids, signal);
  }

  async inspect(id: SessionId, signal?: AbortSignal): Promise<StoredSession> {
    signal?.throwIfAborted();
    const row = await seek(this.#file, id);
    const header = decodeHeader(id, row.header);
    return { header, events: await this.#events(id, row, { from: 0, end: row.length, signal }) };
  }

  async headerOf(id: SessionId, signal?: AbortSignal): Promise<SessionHeader> {
    signal?.throwIfAborted();
    return decodeHeader(id, (await seek(this.#file, id)).header);
  }

  async inspectPacked(id: SessionId, signal?: AbortSignal): Promise<PackedSession> {
    signal?.throwIfAborted();
    const row = await seek(this.#file, id);
    const header = decodeHeader(id, row.header);
    const bodies: Uint8Array[] = [];
    const range = { from: 0, end: row.length, signal };
    for await (const page of pagesOf(this.#file, id, row, range)) bodies.push(...page);
    return { header, bodies };
  }

  async readFrom(
    id: SessionId,
    seq: number,
    signal?: AbortSignal,
    limit = Infinity,
  ): Promise<readonly SessionEvent[]> {
    signal?.throwIfAborted();
    const row = await seek(this.#file, id);
    const from = Math.max(0, seq);
    return this.#events(id, row, { from, end: Math.min(row.length, from + limit), signal });
  }

  async isHeldElsewhere(id: SessionId, signal?: AbortSignal): Promise<boolean> {
    signal?.throwIfAborted();
    return this.#leases.isHeldElsewhere(id, await seek(this.#file, id));
  }

  acquire(id: SessionId): Promise<{ readonly epoch: number }> {
    return this.#leases.acquire(id);
  }

  async append(batch: readonly StoreAppend[]): Promise<void> {
    // Packed first: an event that cannot be fails alone, and the lock is held for less long.
    const packed = batch.map((entry) => encodeEntry(entry, this.#copyable(entry)));
    const leaving = this.#leases.leaving();
    await this.#file.write(
      () => {
        for (const entry of packed) this.#add(entry);
        this.#leases.give(leaving);
      },
      () => {
        this.#leases.gave(leaving);
        for (const { id, epoch, header } of batch) {
          if (header !== undefined) this.#leases.hold(id, epoch);
        }
      },
    );
  }

  renew(ids: readonly SessionId[]): Promise<void> {
    return this.#leases.renew(ids);
  }

  release(ids: readonly SessionId[]): Promise<void> {
    return this.#leases.release(ids);
  }

  onLost(listener: OnLost): () => void {
    return this.#leases.onLost(listener);
  }

  async delete(ids: readonly SessionId[]): Promise<void> {
    await this.#file.write(
      () => {
        for (const id of ids) {
          const row = findRow(this.#file, id);
          if (row === undefined) continue;
          this.#leases.assertFree(id, row);
          this.#run(STATEMENTS.remove, row.key);
        }
      },
      () => this.#leases.forget(ids),
    );
  }

  async vacuum(signal?: AbortSignal): Promise<void> {
    await this.#file.vacuum(signal);
  }

  /** Waits for what is being written, by this process or another. @throws {StoreError} */
  close(): Promise<void> {
    this.#closing ??= this.#leases.close().finally(this.#uncount);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #events(
    id: SessionId,
    row: SessionRow,
    range: Parameters<typeof pagesOf>[3],
  ): Promise<readonly SessionEvent[]> {
    const events: SessionEvent[] = [];
    for await (const page of pagesOf(this.#file, id, row, range)) {
      for (const body of page) events.push(decodeEvent(range.from + events.length, body));
    }
    return events;
  }

  /**
   * How many of the events of a new session are stored already, with a session that this handle
   * holds. That one may be a part behind (its last events are still to be written, perhaps by
   * this very batch): what is missing is packed like any other event. Synchronous, so that
   * batches are written in the order they came.
   */
  #copyable({ header, inherits, events }: StoreAppend): number {
    if (header === undefined || inherits === undefined) return 0;
    let row: SessionRow | undefined;
    try {
      row = findRow(this.#file, inherits.id);
    } catch {
      // Busy, or failing. The write that follows says so; it needs no copy.
      return 0;
    }
    const epoch = this.#leases.epochOf(inherits.id);
    if (row?.owner !== this.#leases.ownerText || row.epoch !== epoch) return 0;
    return Math.min(row.length, inherits.count, events.length);
  }

  #add({ entry, header, copied, bodies, checkpoint }: EncodedEntry): void {
    const row = findRow(this.#file, entry.id);
    const problem = appendProblem(
      entry,
      row && { ...row, isOurs: row.owner === this.#leases.ownerText },
    );
    if (problem !== undefined) throw problem;
    const first = row?.length ?? 0;
    const length = first + entry.events.length;
    const key = row === undefined ? this.#create(entry, header, length) : row.key;
    if (row !== undefined) this.#run(STATEMENTS.grow, key, length);
    const isCopied = copied === 0 || this.#copy(key, entry, copied);
    const from = isCopied ? first + copied : first;
    const rest = isCopied ? bodies : encodeEntry(entry).bodies;
    rest.forEach((body, index) => this.#run(STATEMENTS.add, key, from + index, body));
    if (checkpoint === undefined || entry.checkpoint === undefined) return;
    this.#run(STATEMENTS.mark, key, entry.checkpoint.seq, checkpoint);
  }

  /**
   * Copy the first `count` events of the session that this one inherits from; all or nothing.
   * Between `#copyable` and the lock another process may have taken or deleted it, so it is
   * looked up once more, by its epoch and owner; a damaged one has fewer events than it says.
   */
  #copy(key: number, { inherits }: StoreAppend, count: number): boolean {
    if (inherits === undefined) return false;
    const epoch = this.#leases.epochOf(inherits.id) ?? 0;
    const values = [key, inherits.id, epoch, this.#leases.ownerText, count];
    if (this.#run(STATEMENTS.copy, ...values)[0]?.[0] === count) return true;
    this.#run(STATEMENTS.clear, key);
    return false;
  }

  #create(entry: StoreAppend, header: Uint8Array | undefined, length: number): number {
    const { id, epoch } = entry;
    const {
      createdAt = 0,
      parentSession = null,
      origin = null,
      seedLength = null,
    } = entry.header ?? {};
    const values = [
      id,
      createdAt,
      parentSession,
      origin,
      seedLength,
      header ?? null,
      length,
      epoch,
      this.#leases.ownerText,
      this.#leases.leaseEnd(),
    ];
    return this.#run(STATEMENTS.create, ...values)[0]?.[0] as number;
  }

  #run(statement: string, ...values: readonly SqlValue[]): readonly (readonly SqlValue[])[] {
    return this.#file.sql.run(statement, ...values);
  }
}
