import type { Sql } from './sql.ts';
import { StoreError } from '../../protocol/errors.ts';
import { headerField } from './event-codec.ts';

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
  `
  ALTER TABLE session ADD COLUMN parent TEXT;
  ALTER TABLE session ADD COLUMN origin TEXT;
  ALTER TABLE session ADD COLUMN seed_length INTEGER;
  UPDATE session SET parent = header_field(header, 'parentSession'),
    origin = header_field(header, 'origin'), seed_length = header_field(header, 'seedLength');
  CREATE INDEX session_by_parent ON session (parent, created_at, id) WHERE parent IS NOT NULL;
  CREATE TABLE checkpoint (
    session INTEGER PRIMARY KEY REFERENCES session (key) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    body TEXT NOT NULL
  ) STRICT;
  `,
];

/** Of one parent, in a statement that walks many levels: what it reads for nothing has a bound. */
export const MOST_CHILDREN = 8;

/**
 * Up to arg(2) sessions, those of arg(0) included, with how deep below those they are, at most
 * arg(1): no level before all of the one above. Who has `MOST_CHILDREN` here may have more.
 */
const WALK = `WITH RECURSIVE walk (depth, key, id) AS (
  SELECT 0, NULL, value FROM json_each(arg(0))
  UNION ALL SELECT depth + 1, child.key, child.id FROM walk CROSS JOIN session AS child
  ON child.key IN (SELECT key FROM session INDEXED BY session_by_parent
    WHERE parent = walk.id LIMIT ${MOST_CHILDREN})
  WHERE depth < arg(1) ORDER BY 1 LIMIT arg(2))`;

/** All that is asked of a file, by the name the store calls it; `arg` and `give` are `Sql`'s. */
export const STATEMENTS = {
  list: `SELECT give(id, created_at, parent, header) FROM session
    WHERE (created_at, id) > (arg(0), arg(1)) ORDER BY created_at, id LIMIT arg(2)`,
  // The children of arg(0) after one of them, then those of the others: in this very order,
  // which the index has. No sorting, or `give` would be called before it.
  below: `SELECT give(id, created_at, parent, header) FROM session INDEXED BY session_by_parent
    WHERE parent = arg(0) AND (created_at, id) > (arg(1), arg(2))
    UNION ALL SELECT give(session.id, session.created_at, session.parent, session.header)
    FROM json_each(arg(3)) AS other CROSS JOIN session INDEXED BY session_by_parent
    ON session.parent = other.value
    LIMIT arg(4)`,
  // The same walk with what outlines are made of.
  outline: `SELECT give(id, created_at, parent, origin, seed_length, checkpoint.seq, body)
    FROM session INDEXED BY session_by_parent
    LEFT JOIN checkpoint ON checkpoint.session = session.key AND seq < length
    WHERE parent = arg(0) AND (created_at, id) > (arg(1), arg(2))
    UNION ALL SELECT give(session.id, session.created_at, session.parent, session.origin,
      session.seed_length, checkpoint.seq, checkpoint.body)
    FROM json_each(arg(3)) AS other CROSS JOIN session INDEXED BY session_by_parent
    ON session.parent = other.value
    LEFT JOIN checkpoint ON checkpoint.session = session.key AND seq < length
    LIMIT arg(4)`,
  belowDeep: `${WALK} SELECT give(session.id, created_at, parent, header, depth)
    FROM walk CROSS JOIN session ON session.key = walk.key`,
  outlineDeep: `${WALK} SELECT give(session.id, created_at, parent, origin, seed_length,
      checkpoint.seq, body, depth)
    FROM walk CROSS JOIN session ON session.key = walk.key
    LEFT JOIN checkpoint ON checkpoint.session = session.key AND seq < length`,
  checkpoints: `SELECT give(session.id, session.length, checkpoint.seq, checkpoint.body)
    FROM json_each(arg(0)) AS asked
    JOIN session ON session.id = asked.value JOIN checkpoint ON checkpoint.session = session.key`,
  find: `SELECT give(key, header, length, epoch, owner, lease_until)
    FROM session WHERE id = arg(0)`,
  page: `SELECT give(seq, body) FROM event
    WHERE session = arg(0) AND seq >= arg(1) AND seq < arg(2) ORDER BY seq LIMIT arg(3)`,
  take: 'UPDATE session SET epoch = arg(1), owner = arg(2), lease_until = arg(3) WHERE key = arg(0)',
  create: `INSERT INTO session
    (id, created_at, parent, origin, seed_length, header, length, epoch, owner, lease_until)
    VALUES (arg(0), arg(1), arg(2), arg(3), arg(4), arg(5), arg(6), arg(7), arg(8), arg(9))
    RETURNING give(key)`,
  grow: 'UPDATE session SET length = arg(1) WHERE key = arg(0)',
  add: 'INSERT INTO event (session, seq, body) VALUES (arg(0), arg(1), arg(2))',
  copy: `INSERT INTO event (session, seq, body)
    SELECT arg(0), seq, body FROM event WHERE seq >= 0 AND seq < arg(4) AND session =
      (SELECT key FROM session WHERE id = arg(1) AND epoch = arg(2) AND owner = arg(3));
    SELECT give(changes())`,
  clear: 'DELETE FROM event WHERE session = arg(0)',
  mark: `INSERT INTO checkpoint (session, seq, body) VALUES (arg(0), arg(1), arg(2))
    ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, body = excluded.body`,
  renew: `UPDATE session SET lease_until = arg(3)
    WHERE id = arg(0) AND epoch = arg(1) AND owner = arg(2) RETURNING give(key)`,
  release: `UPDATE session SET owner = NULL, lease_until = 0
    WHERE id = arg(0) AND epoch = arg(1) AND owner = arg(2)`,
  remove: 'DELETE FROM session WHERE key = arg(0)',
} as const;

export const SCHEMA_VERSION = MIGRATIONS.length;

/**
 * Bring a database to the current version, or make a fresh one. One transaction: two processes
 * that open the same new file do it once.
 *
 * @throws {StoreError} `STORE_FORMAT_UNSUPPORTED` when a newer version wrote the file, or it
 *   belongs to something else.
 */
export function migrate(sql: Sql, path: string): void {
  if (versionOf(sql, path) === SCHEMA_VERSION) return;
  sql.define('header_field', headerField);
  sql.transaction(() => {
    for (const migration of MIGRATIONS.slice(versionOf(sql, path))) sql.run(migration);
    sql.run(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${SCHEMA_VERSION}`);
  });
}

export function versionOf(sql: Sql, path: string): number {
  const [version, application, count] = sql
    .run(
      `SELECT give(user_version) FROM pragma_user_version;
      SELECT give(application_id) FROM pragma_application_id;
      SELECT give(count(*)) FROM sqlite_schema`,
    )
    .map(([value]) => Number(value)) as [number, number, number];
  if (application === APPLICATION_ID && version <= SCHEMA_VERSION) return version;
  if (application === 0 && version === 0 && count === 0) return 0;
  throw new StoreError(
    'STORE_FORMAT_UNSUPPORTED',
    application === APPLICATION_ID
      ? `The store at ${path} has format ${version}; this version reads up to ${SCHEMA_VERSION}.`
      : `The file at ${path} is a database of something else.`,
  );
}
