/**
 * Sessions in one SQLite file. One connection on the main thread is the only writer of this
 * process; other processes may have the same file open. Every write is one transaction and is
 * fenced by the session's epoch. Not for network file systems.
 */
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { SqlValue } from './sql.ts';
import type { EncodedEntry } from './event-codec.ts';
import type { StoreOwner } from './store-owner.ts';
import type {
  Checkpoint,
  DamagedSession,
  PackedSession,
  SessionOutline,
  SessionPersistence,
  StoreAppend,
  StoredSession,
} from './store.ts';
import { StoreError } from '../../protocol/errors.ts';
import { census } from '../base/census.ts';
import { systemClock } from '../base/clock.ts';
import { decodeEvent, decodeHeader, encodeEntry } from './event-codec.ts';
import { SqliteFile } from './sqlite-file.ts';
import type { SessionRow } from './sqlite-log.ts';
import { isNameless, pagesOf, seek, toRow } from './sqlite-log.ts';
import { listHeaders, listHeadersBelow, outlineBelow, readCheckpoints } from './sqlite-listing.ts';
import { STATEMENTS } from './sqlite-schema.ts';
import { heldElsewhere, newOwner } from './store-owner.ts';
import { appendProblem, notFound } from './store-rules.ts';

export const LEASE_MS = 15_000;
export const RENEW_MS = 5_000;
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
  readonly clock?: Clock;
  /** Whom the file sees as the holder of this handle's sessions. Absent: this process. */
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
  readonly #clock: Clock;
  readonly #owner: StoreOwner;
  readonly #ownerText: string;
  readonly #file: SqliteFile;
  /** The sessions this handle holds, with the epoch it holds them by. */
  readonly #held = new Map<SessionId, number>();
  readonly #uncount: () => void;
  #renewal: Timer | undefined;
  #isClosed = false;
  #closing: Promise<void> | undefined;

  constructor(options: SqliteStoreOptions) {
    const { path, durability = 'full', clock = systemClock, owner = newOwner() } = options;
    this.#clock = clock;
    this.#owner = owner;
    this.#ownerText = JSON.stringify(owner);
    this.#file = new SqliteFile(path, durability, clock);
    this.#uncount = census.add('store');
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
    const row = await seek(this.#file, id);
    return this.#heldElsewhere({ ...row, id }) !== undefined;
  }

  async acquire(id: SessionId): Promise<{ readonly epoch: number }> {
    const epoch = await this.#file.write(
      () => {
        const row = this.#find(id);
        this.#assertFree(id, row);
        this.#run(STATEMENTS.take, row.key, row.epoch + 1, this.#ownerText, this.#leaseEnd());
        return row.epoch + 1;
      },
      (taken) => this.#hold(id, taken),
    );
    return { epoch };
  }

  async append(batch: readonly StoreAppend[]): Promise<void> {
    // Packed first: an event that cannot be fails alone, and the lock is held for less long.
    const packed = batch.map((entry) => encodeEntry(entry, this.#copyable(entry)));
    await this.#file.write(
      () => {
        for (const entry of packed) this.#add(entry);
      },
      () => {
        for (const { id, epoch, header } of batch) if (header !== undefined) this.#hold(id, epoch);
      },
    );
  }

  async renew(ids: readonly SessionId[]): Promise<void> {
    await this.#file.write(() => {
      for (const id of ids) {
        if (this.#renewOne(id)) continue;
        throw new StoreError('STALE_EPOCH', `Session \`${id}\` is not held by this process.`);
      }
    });
  }

  async release(ids: readonly SessionId[]): Promise<void> {
    const held = ids.filter((id) => this.#held.has(id));
    if (held.length === 0) return;
    await this.#file.write(
      () => this.#release(held),
      () => this.#forget(held),
    );
  }

  async delete(ids: readonly SessionId[]): Promise<void> {
    await this.#file.write(
      () => {
        for (const id of ids) {
          const row = this.#row(id);
          if (row === undefined) continue;
          this.#assertFree(id, row);
          this.#run(STATEMENTS.remove, row.key);
        }
      },
      () => this.#forget(ids),
    );
  }

  async vacuum(signal?: AbortSignal): Promise<void> {
    await this.#file.vacuum(signal);
  }

  /** Waits for what is being written, by this process or another. @throws {StoreError} */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    try {
      // In its turn: what is held then is known then. If it fails the leases run out, or end with
      // this process.
      await this.#file.close(() => {
        if (this.#held.size === 0) return;
        this.#file.sql.transaction(() => this.#release([...this.#held.keys()]));
      });
    } finally {
      this.#isClosed = true;
      this.#renewal?.cancel();
      this.#uncount();
    }
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

  #row(id: SessionId): SessionRow | undefined {
    return isNameless(id) ? undefined : toRow(this.#run(STATEMENTS.find, id));
  }

  #find(id: SessionId): SessionRow {
    const row = this.#row(id);
    if (row === undefined) throw notFound(id);
    return row;
  }

  /** What says that a living owner which is not this one has it. */
  #heldElsewhere({
    id,
    owner,
    leaseUntil,
  }: SessionRow & { id: SessionId }): StoreError | undefined {
    if (owner === null || owner === this.#ownerText) return undefined;
    return heldElsewhere(id, owner, leaseUntil, this.#owner, this.#clock.now());
  }

  #assertFree(id: SessionId, row: SessionRow): void {
    const problem = this.#heldElsewhere({ ...row, id });
    if (problem !== undefined) throw problem;
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
      row = this.#row(inherits.id);
    } catch {
      // Busy, or failing. The write that follows says so; it needs no copy.
      return 0;
    }
    if (row?.owner !== this.#ownerText || row.epoch !== this.#held.get(inherits.id)) return 0;
    return Math.min(row.length, inherits.count, events.length);
  }

  #add({ entry, header, copied, bodies, checkpoint }: EncodedEntry): void {
    const row = this.#row(entry.id);
    const problem = appendProblem(entry, row);
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
    const epoch = this.#held.get(inherits.id) ?? 0;
    const values = [key, inherits.id, epoch, this.#ownerText, count];
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
      this.#ownerText,
      this.#leaseEnd(),
    ];
    return this.#run(STATEMENTS.create, ...values)[0]?.[0] as number;
  }

  #hold(id: SessionId, epoch: number): void {
    this.#held.set(id, epoch);
    this.#renewal ??= this.#nextRenewal();
  }

  #release(ids: readonly SessionId[]): void {
    for (const id of ids) {
      this.#run(STATEMENTS.release, id, this.#held.get(id) ?? 0, this.#ownerText);
    }
  }

  #forget(ids: readonly SessionId[]): void {
    for (const id of ids) this.#held.delete(id);
  }

  /** By the timer. A session that another owner took is found out by its next append. */
  async #renewAll(): Promise<void> {
    this.#renewal = undefined;
    if (this.#isClosed || this.#held.size === 0) return;
    try {
      await this.#file.write(() => {
        for (const id of this.#held.keys()) this.#renewOne(id);
      });
    } catch {
      // A store that cannot be written now: two more tries before the leases run out.
    }
    if (!this.#isClosed) this.#renewal ??= this.#nextRenewal();
  }

  #nextRenewal(): Timer {
    return this.#clock.after(RENEW_MS, () => void this.#renewAll());
  }

  #renewOne(id: SessionId): boolean {
    const epoch = this.#held.get(id);
    if (epoch === undefined) return false;
    const values = [id, epoch, this.#ownerText, this.#leaseEnd()];
    return this.#run(STATEMENTS.renew, ...values).length > 0;
  }

  #leaseEnd(): number {
    return this.#clock.now() + LEASE_MS;
  }

  #run(statement: string, ...values: readonly SqlValue[]): readonly (readonly SqlValue[])[] {
    return this.#file.sql.run(statement, ...values);
  }
}
