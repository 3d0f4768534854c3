/** What is in the file of a process that was killed, read from a copy of it. */
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { DatabaseSync } from '@photostructure/sqlite';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import { checkStore } from '../../src/session/doctor.ts';
import { Session } from '../../src/session/session.ts';
import { openSqliteStore } from '../../src/session/sqlite-store.ts';
import { systemClock } from '../../src/base/clock.ts';

export interface StoredLog {
  readonly header: SessionHeader;
  readonly events: readonly SessionEvent[];
}

export interface Stored {
  readonly sessions: ReadonlyMap<string, StoredLog>;
  readonly problems: readonly string[];
}

/** The file as it is now, with what is in its log; nobody writes it meanwhile. */
export function copyStore(from: string, to: string): void {
  for (const end of ['', '-wal', '-shm']) rmSync(`${to}${end}`, { force: true });
  copyFileSync(from, to);
  if (existsSync(`${from}-wal`)) copyFileSync(`${from}-wal`, `${to}-wal`);
}

export async function readStore(path: string): Promise<Stored> {
  const sessions = new Map<string, StoredLog>();
  if (!existsSync(path)) return { sessions, problems: [] };
  const copy = `${path}.copy`;
  copyStore(path, copy);
  const problems: string[] = [];
  for (const { severity, session = 'the file', text } of await checkStore(copy)) {
    if (severity !== 'note') problems.push(`${severity} in ${session}: ${text}`);
  }
  const store = openSqliteStore({ path: copy });
  try {
    for (const { id } of await store.list()) {
      const log = await store.inspect(id as SessionId);
      sessions.set(id, log);
      problems.push(...ruleProblems(log));
    }
  } finally {
    await store.close();
  }
  return { sessions, problems };
}

/** What the session itself finds wrong with its log. */
function ruleProblems({ header, events }: StoredLog): string[] {
  try {
    const { seq } = new Session({ header, seed: events, clock: systemClock });
    return seq === events.length ? [] : [`log of ${header.id}: it has ${seq} events`];
  } catch (error) {
    return [`log of ${header.id}: ${String(error)}`];
  }
}

/** Every byte of every event, as one number. */
export function bytesOf(path: string): string {
  const copy = `${path}.copy`;
  copyStore(path, copy);
  const hash = createHash('sha256');
  const sql = `SELECT eat(s.id, s.length, s.header, e.seq, e.body) FROM session s
    JOIN event e ON e.session = s.key ORDER BY s.key, e.seq`;
  reading(copy, sql, (row) => {
    for (const value of row) hash.update(typeof value === 'number' ? `${value};` : value);
  });
  return hash.digest('hex');
}

/** Nobody commits anything until this is undone. */
export function lockStore(path: string): () => void {
  const database = new DatabaseSync(path, { timeout: 5_000 });
  database.exec('BEGIN IMMEDIATE');
  return () => database.close();
}

type Row = readonly (string | number | Uint8Array)[];

/** Rows go out through `eat(…)`: a prepared statement would keep the file open. */
function reading(path: string, sql: string, eat: (row: Row) => void): void {
  const database = new DatabaseSync(path);
  try {
    database.function('eat', { varargs: true, directOnly: true }, (...row: Row) => {
      eat(row);
      return null;
    });
    database.exec(sql);
  } finally {
    database.close();
  }
}
