/**
 * The real SQLite, which fails when a test says so, with its own codes. It takes the place of the
 * package: `vi.mock('@photostructure/sqlite', () => import('../support/faulty-sqlite.ts'))`.
 */
import type * as Sqlite from '@photostructure/sqlite';
import { vi } from 'vitest';

const real = await vi.importActual<typeof Sqlite>('@photostructure/sqlite');

/** What makes SQLite itself refuse a statement, and what ends that. */
export interface Fault {
  readonly begin: (database: DatabaseSync) => void;
  readonly end: (database: DatabaseSync) => void;
}

/** SQLite has no memory for any statement: `SQLITE_NOMEM`. */
export const noMemory: Fault = limited('vdbeOp', 2);
/** Any statement is too long for it: `SQLITE_TOOBIG`. */
export const tooBig: Fault = limited('sqlLength', 2);
/** The connection may not write: `SQLITE_READONLY`. */
export const readOnly: Fault = {
  begin: (database) => database.plainly('PRAGMA query_only = ON'),
  end: (database) => database.plainly('PRAGMA query_only = OFF'),
};
/** Not one page can be added to the file: `SQLITE_FULL`. */
export const full: Fault = {
  begin: (database) => database.plainly('PRAGMA max_page_count = 1'),
  end: (database) => database.plainly('PRAGMA max_page_count = 1000000'),
};

/** Asked before each statement of every connection; returns what to do after it. */
let onStatement: (database: DatabaseSync, sql: string) => (() => void) | undefined = () =>
  undefined;

export class DatabaseSync extends real.DatabaseSync {
  override exec(sql: string): void {
    const after = onStatement(this, sql);
    try {
      super.exec(sql);
    } finally {
      after?.();
    }
  }

  /** Not one of the statements that are counted. */
  plainly(sql: string): void {
    super.exec(sql);
  }
}

export interface Watch extends Disposable {
  /** The statements so far. */
  readonly statements: readonly string[];
  /** What began is over. */
  readonly end: () => void;
}

/**
 * From now on the statement of number `at` (from 0) meets `fault`; `forGood`: and all after it,
 * until `end`. Without `at` statements are only counted.
 */
export function failing(fault: Fault, at = Infinity, forGood = false): Watch {
  const statements: string[] = [];
  let end = (): void => {};
  onStatement = (database, sql) => {
    const isIt = statements.length === at;
    statements.push(sql);
    if (!isIt) return undefined;
    fault.begin(database);
    end = () => {
      end = () => {};
      if (database.isOpen) fault.end(database);
    };
    return forGood ? undefined : end;
  };
  const stop = (): void => {
    onStatement = () => undefined;
    end();
  };
  return { statements, end: stop, [Symbol.dispose]: stop };
}

function limited(name: 'vdbeOp' | 'sqlLength', least: number): Fault {
  return {
    begin: ({ limits }) => void (limits[name] = least),
    end: ({ limits }) => void (limits[name] = Infinity),
  };
}
