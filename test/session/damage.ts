import { DatabaseSync } from '@photostructure/sqlite';

/** Run SQL on a file of sessions, as no program of ours would. */
export function damage(path: string, sql: string): void {
  const database = new DatabaseSync(path);
  try {
    database.exec(`PRAGMA foreign_keys = OFF; ${sql}; PRAGMA wal_checkpoint(TRUNCATE)`);
  } finally {
    database.close();
  }
}
