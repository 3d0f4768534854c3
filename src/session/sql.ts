/** What a column holds. */
export type SqlValue = string | number | null | Uint8Array;

/** The part of a connection that is used. */
export interface SqlConnection {
  readonly isTransaction: boolean;
  exec(sql: string): void;
  function(
    name: string,
    options: { deterministic?: boolean; directOnly?: boolean; varargs?: boolean },
    implementation: (...values: never[]) => SqlValue,
  ): void;
}

/**
 * Runs SQL with values and rows, and leaves no statement behind: a prepared one keeps the file
 * open after `close()` until the garbage collector finds it. So `exec` makes and ends its own,
 * values come in through the SQL function `arg(n)`, and rows go out through `give(a, b, …)`:
 * `SELECT give(id) FROM session WHERE key = arg(0)`.
 */
export class Sql {
  readonly #connection: SqlConnection;
  #values: readonly SqlValue[] = [];
  #rows: SqlValue[][] = [];
  #isInTransaction = false;
  #isCommitFailed = false;

  constructor(connection: SqlConnection) {
    this.#connection = connection;
    // Deterministic within one statement, which is all that SQLite means by it.
    const constant = { deterministic: true, directOnly: true };
    connection.function('arg', constant, (index: number) => this.#values[index] ?? null);
    connection.function('give', { varargs: true, directOnly: true }, (...row: SqlValue[]) => {
      this.#rows.push(row);
      return null;
    });
  }

  /** One more SQL function. It must not throw. */
  define(name: string, implementation: (...values: never[]) => SqlValue): void {
    this.#connection.function(name, { deterministic: true, directOnly: true }, implementation);
  }

  /**
   * The rows that were given, in order. What a transaction left behind that could not be undone,
   * because the connection failed in that too, is undone first.
   */
  run(sql: string, ...values: readonly SqlValue[]): readonly (readonly SqlValue[])[] {
    if (!this.#isInTransaction && this.#connection.isTransaction) this.#connection.exec('ROLLBACK');
    this.#values = values;
    this.#rows = [];
    try {
      this.#connection.exec(sql);
      return this.#rows;
    } finally {
      this.#values = [];
      this.#rows = [];
    }
  }

  /**
   * All that this connection reads from here to its end is of one moment: that of the next
   * statement.
   */
  holdReading(): void {
    this.run('BEGIN DEFERRED');
    this.#isInTransaction = true;
  }

  /** The last transaction came as far as its commit, and that failed. */
  get isCommitFailed(): boolean {
    return this.#isCommitFailed;
  }

  /** One transaction that may write: all that `operation` runs, or nothing of it. */
  transaction<T>(operation: () => T): T {
    this.#isCommitFailed = false;
    this.run('BEGIN IMMEDIATE');
    this.#isInTransaction = true;
    let isCommitting = false;
    try {
      const result = operation();
      isCommitting = true;
      this.run('COMMIT');
      return result;
    } catch (error) {
      this.#isCommitFailed = isCommitting;
      try {
        // SQLite may have done so by itself, as it does when the disk is full.
        if (this.#connection.isTransaction) this.run('ROLLBACK');
      } catch {
        // The next statement tries again. Until then nobody sees what is not to be seen.
      }
      throw error;
    } finally {
      this.#isInTransaction = false;
    }
  }
}
