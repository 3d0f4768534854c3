/**
 * One open SQLite file: its connection, the order of what is written through it, and the waiting
 * for other processes that write it. A lock that is held elsewhere holds up no other work of this
 * thread: it is tried for again and again, until the bound is reached.
 */
import { closeSync, openSync, realpathSync, utimesSync } from 'node:fs';
import { setImmediate as nextTick } from 'node:timers/promises';
import { DatabaseSync } from '@photostructure/sqlite';
import type { StoreErrorCode } from '../../protocol/errors.ts';
import type { Clock } from '../base/clock.ts';
import type { SqlValue } from './sql.ts';
import { StoreError } from '../../protocol/errors.ts';
import { elapsed } from '../base/clock.ts';
import { Turns } from '../base/turns.ts';
import { isBusy, isSyncFailure, mayBeWritten, toStoreError } from './sqlite-errors.ts';
import { migrate, SCHEMA_VERSION } from './sqlite-schema.ts';
import { Sql } from './sql.ts';

/** How long a call waits for a lock that another process holds. */
const BUSY_MS = 5_000;
/** Time for others before the second try, and at most; it doubles. */
const FIRST_PAUSE_MS = 5;
const LAST_PAUSE_MS = 50;
/** What is left of the write-ahead log once no reader needs more of it. */
const LOG_BYTES = 4 * 1024 * 1024;
/** Pages given back before other work gets a turn. */
const FREED = 64;

type Database = InstanceType<typeof DatabaseSync>;
type Rows = readonly (readonly SqlValue[])[];

export class SqliteFile {
  readonly path: string;
  /** For what runs inside `write`. */
  readonly sql: Sql;
  /** For readings of several steps. */
  readonly turns = new Turns();
  readonly #clock: Clock;
  readonly #database: Database;
  /** The last of the writes that wait or run. */
  #tail: Promise<unknown> | undefined;
  #isClosing = false;
  #closed: Promise<void> | undefined;

  /**
   * Open or make it, and bring it to the current version. Waits for other processes that do the
   * same, standing still.
   * @throws {StoreError}
   */
  constructor(path: string, durability: 'full' | 'process' | 'batched', clock: Clock) {
    this.path = path;
    this.#clock = clock;
    const { database, sql } = guard(`Cannot open the store at ${path}`, () =>
      open(path, durability),
    );
    this.#database = database;
    this.sql = sql;
  }

  /** What one statement gives. Does not wait for what is being written. @throws {StoreError} */
  read(statement: string, ...values: readonly SqlValue[]): Promise<Rows> {
    const until = elapsed(this.#clock) + BUSY_MS;
    return this.#patiently(`Cannot read the store at ${this.path}`, until, () => {
      if (this.#isClosing) throw this.#isOver();
      return this.sql.run(statement, ...values);
    });
  }

  /**
   * One transaction, after those that were asked for before it. `operation` may run more than
   * once, so it changes nothing but the file. `onKept` runs in the same span as the commit:
   * nothing comes between. When writes wait for each other, other work gets a turn in between.
   * @throws {StoreError}
   */
  write<T>(operation: () => T, onKept: (result: T) => void = () => {}): Promise<T> {
    if (this.#isClosing) return Promise.reject(this.#isOver());
    return this.#inTurn(() => {
      const result = this.sql.transaction(operation);
      onKept(result);
      return result;
    });
  }

  /** Free space goes back to the system, step by step. @throws {StoreError} */
  async vacuum(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    const [mode] = (await this.read('SELECT give(auto_vacuum) FROM pragma_auto_vacuum'))[0] ?? [];
    // Made before this was in the file: `VACUUM` writes it anew with what `open` asked for.
    if (mode !== 2) await this.#step('VACUUM');
    for (;;) {
      signal?.throwIfAborted();
      const free = await this.#free();
      if (free === 0) break;
      await this.#step(`PRAGMA incremental_vacuum(${FREED})`);
      if ((await this.#free()) >= free) break;
      await nextTick();
    }
    // The file itself gets shorter with this.
    await this.#step('PRAGMA wal_checkpoint(TRUNCATE)');
  }

  /**
   * Refuse what is new, wait for what is being written, do `last` if it can be done, again as long
   * as it says that there is more, and let go. Idempotent.
   */
  close(last: () => boolean): Promise<void> {
    this.#closed ??= this.#close(last);
    return this.#closed;
  }

  async #close(last: () => boolean): Promise<void> {
    this.#isClosing = true;
    try {
      while (await this.#inTurn(last)) await nextTick();
    } catch {
      // A file that cannot be written now is let go of all the same.
    }
    guard(`Cannot close the store at ${this.path}`, () => this.#database.close());
    tellOfLeaving(this.path);
  }

  async #step(statement: string): Promise<void> {
    if (this.#isClosing) throw this.#isOver();
    await this.#inTurn(() => this.sql.run(statement));
  }

  async #free(): Promise<number> {
    const rows = await this.read('SELECT give(freelist_count) FROM pragma_freelist_count');
    return Number(rows[0]?.[0] ?? 0);
  }

  /** The bound counts from the call: behind a lock that stays, all give up together. */
  #inTurn<T>(run: () => T): Promise<T> {
    const until = elapsed(this.#clock) + BUSY_MS;
    const what = `Cannot write the store at ${this.path}`;
    const begin = async (): Promise<T> => {
      try {
        return await this.#patiently(what, until, run);
      } catch (error) {
        throw this.sql.isCommitFailed ? await this.#undone(error as StoreError) : error;
      }
    };
    const done = this.#tail === undefined ? begin() : this.#tail.then(() => nextTick()).then(begin);
    const tail = done
      .catch(() => {})
      .then(() => {
        if (this.#tail === tail) this.#tail = undefined;
      });
    this.#tail = tail;
    return done;
  }

  /**
   * A commit that failed in its fsync is whole in the write-ahead log: though nobody sees it now,
   * it would count after a crash. Another transaction is written in its place, one that changes
   * nothing, before the refusal is told. The end of the process finds only that, whether or not
   * the disk says that it has it; what a disk that fails so shows after a power cut, nobody knows.
   */
  async #undone(refusal: StoreError): Promise<StoreError> {
    if (!mayBeWritten(refusal.cause)) return refusal;
    try {
      await this.#patiently('', elapsed(this.#clock) + BUSY_MS, () => {
        this.sql.transaction(() => this.sql.run(`PRAGMA user_version = ${SCHEMA_VERSION}`));
      });
    } catch (error) {
      if (!isSyncFailure((error as StoreError).cause)) {
        const text = `${refusal.message} Whether it was kept is unknown until the file is read again after this process.`;
        return new StoreError(refusal.code as StoreErrorCode, text, { cause: refusal.cause });
      }
    }
    return refusal;
  }

  /** The first try is made in the span of the call. */
  async #patiently<T>(what: string, until: number, run: () => T): Promise<T> {
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LAST_PAUSE_MS)) {
      try {
        return run();
      } catch (error) {
        if (!isBusy(error) || elapsed(this.#clock) >= until) throw toStoreError(error, what);
      }
      await new Promise<void>((resume) => void this.#clock.after(pause, resume, true));
    }
  }

  #isOver(): StoreError {
    return new StoreError('STORE_IO', `The store at ${this.path} is closed.`);
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
    // Before the first page is written; in a file that has pages it waits for a `VACUUM`.
    sql.run('PRAGMA auto_vacuum = INCREMENTAL');
    sql.run('PRAGMA journal_mode = WAL');
    sql.run(`PRAGMA synchronous = ${durability === 'full' ? 'FULL' : 'NORMAL'}`);
    sql.run(`PRAGMA journal_size_limit = ${LOG_BYTES}`);
    migrate(sql, path);
    // While it is opened this thread stands still, and no more after that.
    sql.run('PRAGMA busy_timeout = 0');
    return { database, sql };
  } catch (error) {
    database.close();
    throw error;
  }
}

/**
 * What is beside the file still, somebody else has open. A check only reads, and cannot clear it
 * away with its own end; by this time it knows that there may be nobody else to do so.
 */
function tellOfLeaving(path: string): void {
  try {
    const now = new Date();
    utimesSync(`${realpathSync(path)}-wal`, now, now);
  } catch {
    // Nothing is left there.
  }
}

function guard<T>(what: string, operation: () => T): T {
  try {
    return operation();
  } catch (error) {
    throw toStoreError(error, what);
  }
}
