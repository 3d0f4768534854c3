import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { SqliteStore, SqliteStoreOptions } from '../../src/session/sqlite-store.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';

/** A real database in a folder of its own; both are gone when it is disposed. */
export interface TempStore extends AsyncDisposable {
  readonly folder: string;
  readonly path: string;
  readonly store: SqliteStore;
  /** One more handle on the same file, closed with the others. */
  open(options?: Omit<SqliteStoreOptions, 'path'>): SqliteStore;
}

export function tempStore(options: Omit<SqliteStoreOptions, 'path'> = {}): TempStore {
  const folder = mkdtempSync(join(tmpdir(), 'sessions-'));
  const path = join(folder, 'sessions.db');
  const stores: SqliteStore[] = [];
  const open: TempStore['open'] = (more = {}) => {
    const store = openSqliteStore({ path, ...options, ...more });
    stores.push(store);
    return store;
  };
  return {
    folder,
    path,
    store: open(),
    open,
    async [Symbol.asyncDispose]() {
      for (const store of stores) await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
