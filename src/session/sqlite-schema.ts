import { StoreError } from '../../protocol/errors.ts';

/** The part of a database that a migration needs. */
export interface SchemaDatabase {
  exec(sql: string): void;
  prepare(sql: string): { get(): unknown };
}

/** `SAGR`: tells our files from other SQLite databases. */
const APPLICATION_ID = 0x53414752;

/**
 * Each brings a file from the version of its index to the next one; `user_version` counts them.
 * What is released here is never changed: a change is one more entry.
 */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE session (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    header BLOB NOT NULL,
    length INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT,
    lease_until INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX session_by_age ON session (created_at, id);
  CREATE TABLE event (
    session INTEGER NOT NULL REFERENCES session (key) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (session, seq)
  ) STRICT, WITHOUT ROWID;
  `,
];

/** All that is asked of a file, by the name the store calls it. */
export const STATEMENTS = {
  list: 'SELECT id, header FROM session ORDER BY created_at, id',
  find: 'SELECT key, header, length, epoch, owner, lease_until FROM session WHERE id = ?',
  page: `SELECT seq, body FROM event WHERE session = ? AND seq >= ? AND seq < ?
    ORDER BY seq LIMIT ?`,
  take: 'UPDATE session SET epoch = ?, owner = ?, lease_until = ? WHERE key = ?',
  create: `INSERT INTO session (id, created_at, header, length, epoch, owner, lease_until)
    VALUES (?, ?, ?, ?, ?, ?, ?)`,
  grow: 'UPDATE session SET length = ? WHERE key = ?',
  add: 'INSERT INTO event (session, seq, body) VALUES (?, ?, ?)',
  renew: 'UPDATE session SET lease_until = ? WHERE id = ? AND epoch = ? AND owner = ?',
  release: `UPDATE session SET owner = NULL, lease_until = 0
    WHERE id = ? AND epoch = ? AND owner = ?`,
  remove: 'DELETE FROM session WHERE key = ?',
} as const;

export const SCHEMA_VERSION = MIGRATIONS.length;

/**
 * Bring a database to the current version, or make a fresh one. One transaction: two processes
 * that open the same new file do it once.
 *
 * @throws {StoreError} `STORE_FORMAT_UNSUPPORTED` when a newer version wrote the file, or it
 *   belongs to something else.
 */
export function migrate(database: SchemaDatabase, path: string): void {
  if (versionOf(database, path) === SCHEMA_VERSION) return;
  database.exec('BEGIN IMMEDIATE');
  try {
    for (const migration of MIGRATIONS.slice(versionOf(database, path))) database.exec(migration);
    database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
    database.exec(`PRAGMA user_version = ${SCHEMA_VERSION}`);
    database.exec('COMMIT');
  } catch (error) {
    try {
      database.exec('ROLLBACK');
    } catch {
      // A failed commit may have ended the transaction already.
    }
    throw error;
  }
}

function versionOf(database: SchemaDatabase, path: string): number {
  const version = pragma(database, 'user_version');
  const application = pragma(database, 'application_id');
  if (application === APPLICATION_ID && version <= SCHEMA_VERSION) return version;
  if (application === APPLICATION_ID) {
    throw new StoreError(
      'STORE_FORMAT_UNSUPPORTED',
      `The store at ${path} has format ${version}; this version reads up to ${SCHEMA_VERSION}.`,
    );
  }
  const { count } = database.prepare('SELECT count(*) AS count FROM sqlite_schema').get() as {
    count: number;
  };
  if (application === 0 && version === 0 && count === 0) return 0;
  throw new StoreError(
    'STORE_FORMAT_UNSUPPORTED',
    `The file at ${path} is a database of something else.`,
  );
}

function pragma(database: SchemaDatabase, name: string): number {
  return (database.prepare(`PRAGMA ${name}`).get() as Record<string, number>)[name] as number;
}
