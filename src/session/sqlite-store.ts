/**
 * Sessions in one SQLite file. One connection on the main thread is the only writer of this
 * process; other processes may have the same file open. Every write is one transaction and is
 * fenced by the session's epoch. Not for network file systems.
 */
import { closeSync, openSync } from 'node:fs';
import { setImmediate as nextTick } from 'node:timers/promises';
import { DatabaseSync } from '@photostructure/sqlite';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { SqlValue } from './sql.ts';
import type { StoreOwner } from './store-owner.ts';
import type { SessionPersistence, StoreAppend, StoredSession } from './store.ts';
import { StoreError } from '../../protocol/errors.ts';
import { census } from '../base/census.ts';
import { systemClock } from '../base/clock.ts';
import { decodeEvent, decodeHeader, encodeEntry } from './event-codec.ts';
import { toStoreError } from './sqlite-errors.ts';
import { migrate, STATEMENTS } from './sqlite-schema.ts';
import { Sql } from './sql.ts';
import { isGone, newOwner, parseOwner } from './store-owner.ts';
import { appendProblem, notFound } from './store-rules.ts';

export const LEASE_MS = 15_000;
export const RENEW_MS = 5_000;
const BUSY_MS = 5_000;
/** Rows read before other work gets a turn. */
const PAGE = 2_000;

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

type Database = InstanceType<typeof DatabaseSync>;

interface SessionRow {
  readonly key: number;
  readonly header: Uint8Array;
  readonly length: number;
  readonly epoch: number;
  readonly owner: string | null;
  readonly leaseUntil: number;
}
type SessionColumns = [number, Uint8Array, number, number, string | null, number];

export class SqliteStore implements SessionPersistence {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #owner: StoreOwner;
  readonly #ownerText: string;
  readonly #database: Database;
  readonly #sql: Sql;
  /** The sessions this handle holds, with the epoch it holds them by. */
  readonly #held = new Map<SessionId, number>();
  readonly #uncount: () => void;
  #renewal: Timer | undefined;
  #isClosed = false;

  constructor(options: SqliteStoreOptions) {
    const { path, durability = 'full', clock = systemClock, owner = newOwner() } = options;
    this.#path = path;
    this.#clock = clock;
    this.#owner = owner;
    this.#ownerText = JSON.stringify(owner);
    const { database, sql } = this.#guard(`Cannot open the store at ${path}`, () =>
      open(path, durability),
    );
    this.#database = database;
    this.#sql = sql;
    this.#uncount = census.add('store');
  }

  async list(signal?: AbortSignal): Promise<readonly SessionHeader[]> {
    signal?.throwIfAborted();
    const rows = this.#read(STATEMENTS.list) as readonly [string, Uint8Array][];
    return rows.map(([id, header]) => decodeHeader(id, header));
  }

  async inspect(id: SessionId, signal?: AbortSignal): Promise<StoredSession> {
    signal?.throwIfAborted();
    const row = this.#find(id);
    const header = decodeHeader(id, row.header);
    return { header, events: await this.#events(id, row, 0, signal) };
  }

  async readFrom(
    id: SessionId,
    seq: number,
    signal?: AbortSignal,
  ): Promise<readonly SessionEvent[]> {
    signal?.throwIfAborted();
    return this.#events(id, this.#find(id), Math.max(0, seq), signal);
  }

  async isHeldElsewhere(id: SessionId, signal?: AbortSignal): Promise<boolean> {
    signal?.throwIfAborted();
    return this.#isHeld(this.#find(id));
  }

  async acquire(id: SessionId): Promise<{ readonly epoch: number }> {
    const epoch = this.#write(() => {
      const row = this.#find(id);
      this.#assertFree(id, row);
      this.#sql.run(STATEMENTS.take, row.key, row.epoch + 1, this.#ownerText, this.#leaseEnd());
      return row.epoch + 1;
    });
    this.#hold(id, epoch);
    return { epoch };
  }

  async append(batch: readonly StoreAppend[]): Promise<void> {
    // Packed first: an event that cannot be fails alone, and the lock is held for less long.
    const packed = batch.map((entry) => encodeEntry(entry, this.#copyable(entry)));
    this.#write(() => {
      for (const { entry, header, copied, bodies } of packed) {
        const row = this.#row(entry.id);
        const problem = appendProblem(entry, row);
        if (problem !== undefined) throw problem;
        const first = row?.length ?? 0;
        const length = first + entry.events.length;
        const key = row === undefined ? this.#create(entry, header, length) : row.key;
        if (row !== undefined) this.#sql.run(STATEMENTS.grow, key, length);
        const isCopied = copied === 0 || this.#copy(key, entry, copied);
        const from = isCopied ? first + copied : first;
        const rest = isCopied ? bodies : encodeEntry(entry).bodies;
        rest.forEach((body, index) => this.#sql.run(STATEMENTS.add, key, from + index, body));
      }
    });
    for (const { id, epoch, header } of batch) if (header !== undefined) this.#hold(id, epoch);
  }

  async renew(ids: readonly SessionId[]): Promise<void> {
    this.#write(() => {
      for (const id of ids) {
        if (this.#renewOne(id)) continue;
        throw new StoreError('STALE_EPOCH', `Session \`${id}\` is not held by this process.`);
      }
    });
  }

  async release(ids: readonly SessionId[]): Promise<void> {
    const held = ids.filter((id) => this.#held.has(id));
    if (held.length === 0) return;
    this.#write(() => {
      for (const id of held) {
        this.#sql.run(STATEMENTS.release, id, this.#held.get(id) ?? 0, this.#ownerText);
      }
    });
    for (const id of held) this.#held.delete(id);
  }

  async delete(ids: readonly SessionId[]): Promise<void> {
    this.#write(() => {
      for (const id of ids) {
        const row = this.#row(id);
        if (row === undefined) continue;
        this.#assertFree(id, row);
        this.#sql.run(STATEMENTS.remove, row.key);
      }
    });
    for (const id of ids) this.#held.delete(id);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    try {
      await this.release([...this.#held.keys()]);
    } catch {
      // The leases run out, or end with this process.
    }
    this.#isClosed = true;
    this.#renewal?.cancel();
    this.#uncount();
    this.#guard(`Cannot close the store at ${this.#path}`, () => this.#database.close());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** A log only grows, so its first `length` events are one consistent reading, page by page. */
  async #events(
    id: SessionId,
    { key, length }: SessionRow,
    from: number,
    signal: AbortSignal | undefined,
  ): Promise<readonly SessionEvent[]> {
    const events: SessionEvent[] = [];
    for (let seq = from; seq < length; seq = from + events.length) {
      if (events.length > 0) await nextTick();
      signal?.throwIfAborted();
      const rows = this.#read(STATEMENTS.page, key, seq, length, PAGE) as readonly [
        number,
        Uint8Array,
      ][];
      // Not found any more when it was deleted between two pages.
      if (rows.length === 0) throw this.#find(id) && missing(id, seq);
      for (const [found, body] of rows) {
        const next = from + events.length;
        if (found !== next) throw missing(id, next);
        events.push(decodeEvent(next, body));
      }
    }
    return events;
  }

  #row(id: SessionId): SessionRow | undefined {
    // SQLite would take the part before it for the whole name.
    if (id.includes('\0')) return undefined;
    const row = this.#read(STATEMENTS.find, id)[0];
    if (row === undefined) return undefined;
    const [key, header, length, epoch, owner, leaseUntil] = row as SessionColumns;
    return { key, header, length, epoch, owner, leaseUntil };
  }

  #find(id: SessionId): SessionRow {
    const row = this.#row(id);
    if (row === undefined) throw notFound(id);
    return row;
  }

  /** Of a living owner that is not this one. */
  #isHeld(row: SessionRow): boolean {
    if (row.owner === null || row.owner === this.#ownerText) return false;
    const now = this.#clock.now();
    const owner = parseOwner(row.owner);
    if (owner === undefined) return row.leaseUntil > now;
    return !isGone(owner, this.#owner, row.leaseUntil, now);
  }

  #assertFree(id: SessionId, row: SessionRow): void {
    if (!this.#isHeld(row)) return;
    const owner = parseOwner(row.owner ?? '');
    throw new StoreError(
      'SESSION_OWNED_ELSEWHERE',
      `Session \`${id}\` is held by process ${owner?.pid ?? 'unknown'} on ${owner?.host ?? 'another host'}.`,
    );
  }

  /**
   * How many of the events of a new session are stored already, with a session that this handle
   * holds. That one may be a part behind (its last events are still to be written, perhaps by
   * this very batch): what is missing is packed like any other event.
   */
  #copyable({ header, inherits, events }: StoreAppend): number {
    if (header === undefined || inherits === undefined) return 0;
    const row = this.#row(inherits.id);
    if (row?.owner !== this.#ownerText || row.epoch !== this.#held.get(inherits.id)) return 0;
    return Math.min(row.length, inherits.count, events.length);
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
    if (this.#sql.run(STATEMENTS.copy, ...values)[0]?.[0] === count) return true;
    this.#sql.run(STATEMENTS.clear, key);
    return false;
  }

  #create(entry: StoreAppend, header: Uint8Array | undefined, length: number): number {
    const { id, epoch } = entry;
    const createdAt = entry.header?.createdAt ?? 0;
    const values = [
      id,
      createdAt,
      header ?? null,
      length,
      epoch,
      this.#ownerText,
      this.#leaseEnd(),
    ];
    return this.#sql.run(STATEMENTS.create, ...values)[0]?.[0] as number;
  }

  #hold(id: SessionId, epoch: number): void {
    this.#held.set(id, epoch);
    this.#renewal ??= this.#clock.after(RENEW_MS, () => this.#renewAll());
  }

  /** By the timer. A session that another owner took is found out by its next append. */
  #renewAll(): void {
    this.#renewal = undefined;
    if (this.#isClosed || this.#held.size === 0) return;
    try {
      this.#write(() => {
        for (const id of this.#held.keys()) this.#renewOne(id);
      });
    } catch {
      // A store that cannot be written now: two more tries before the leases run out.
    }
    this.#renewal = this.#clock.after(RENEW_MS, () => this.#renewAll());
  }

  #renewOne(id: SessionId): boolean {
    const epoch = this.#held.get(id);
    if (epoch === undefined) return false;
    const values = [id, epoch, this.#ownerText, this.#leaseEnd()];
    return this.#sql.run(STATEMENTS.renew, ...values).length > 0;
  }

  #leaseEnd(): number {
    return this.#clock.now() + LEASE_MS;
  }

  #read(statement: string, ...values: readonly SqlValue[]): readonly (readonly SqlValue[])[] {
    this.#assertOpen();
    return this.#guard(`Cannot read the store at ${this.#path}`, () =>
      this.#sql.run(statement, ...values),
    );
  }

  #write<T>(operation: () => T): T {
    this.#assertOpen();
    return this.#guard(`Cannot write the store at ${this.#path}`, () =>
      this.#sql.transaction(operation),
    );
  }

  #guard<T>(what: string, operation: () => T): T {
    try {
      return operation();
    } catch (error) {
      throw toStoreError(error, what);
    }
  }

  #assertOpen(): void {
    if (this.#isClosed) {
      throw new StoreError('STORE_IO', `The store at ${this.#path} is closed.`);
    }
  }
}

function open(
  path: string,
  durability: 'full' | 'process' | 'batched',
): { database: Database; sql: Sql } {
  // Made here, so that only this user can read it, and so that a failure says why.
  if (path !== ':memory:') closeSync(openSync(path, 'a', 0o600));
  const database = new DatabaseSync(path, { timeout: BUSY_MS });
  try {
    const sql = new Sql(database);
    sql.run('PRAGMA journal_mode = WAL');
    sql.run(`PRAGMA synchronous = ${durability === 'full' ? 'FULL' : 'NORMAL'}`);
    migrate(sql, path);
    return { database, sql };
  } catch (error) {
    database.close();
    throw error;
  }
}

function missing(id: SessionId, seq: number): StoreError {
  return new StoreError('STORE_CORRUPT', `Event ${seq} of session \`${id}\` is not in the store.`);
}
