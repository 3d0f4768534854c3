/** What a column holds. */
export type SqlValue = string | number | null | Uint8Array;

/** The part of a connection that is used. */
export interface SqlConnection {
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

  /** The rows that were given, in order. */
  run(sql: string, ...values: readonly SqlValue[]): readonly (readonly SqlValue[])[] {
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

  /** One transaction that may write: all that `operation` runs, or nothing of it. */
  transaction<T>(operation: () => T): T {
    this.run('BEGIN IMMEDIATE');
    try {
      const result = operation();
      this.run('COMMIT');
      return result;
    } catch (error) {
      try {
        this.run('ROLLBACK');
      } catch {
        // SQLite has rolled back by itself, as it does when the disk is full.
      }
      throw error;
    }
  }
}
