/** One session's row and log in a SQLite file, read page by page. */
import type { SessionId } from '../../protocol/ids.ts';
import type { SqlValue } from './sql.ts';
import type { SqliteFile } from './sqlite-file.ts';
import { StoreError } from '../../protocol/errors.ts';
import { STATEMENTS } from './sqlite-schema.ts';
import { notFound } from './store-rules.ts';

/** Rows read, and decoded, before other work gets a turn. */
export const PAGE = 200;

export interface SessionRow {
  readonly key: number;
  readonly header: Uint8Array;
  readonly length: number;
  readonly epoch: number;
  readonly owner: string | null;
  readonly leaseUntil: number;
}
type SessionColumns = [number, Uint8Array, number, number, string | null, number];

/** SQLite would take the part before a zero for the whole name; no session is called so. */
export const isNameless = (id: string): boolean => id.includes('\0');

function toRow([row]: readonly (readonly SqlValue[])[]): SessionRow | undefined {
  if (row === undefined) return undefined;
  const [key, header, length, epoch, owner, leaseUntil] = row as SessionColumns;
  return { key, header, length, epoch, owner, leaseUntil };
}

/** For what runs inside of a transaction. */
export function findRow(file: SqliteFile, id: SessionId): SessionRow | undefined {
  return isNameless(id) ? undefined : toRow(file.sql.run(STATEMENTS.find, id));
}

/** @throws {StoreError} `SESSION_NOT_FOUND` */
export async function seek(file: SqliteFile, id: SessionId): Promise<SessionRow> {
  const row = isNameless(id) ? undefined : toRow(await file.read(STATEMENTS.find, id));
  if (row === undefined) throw notFound(id);
  return row;
}

/**
 * The packed events from number `from` to before `end`. A log only grows, so those of one row's
 * `length` are one consistent reading.
 * @throws {StoreError} `STORE_CORRUPT` when one is missing, `SESSION_NOT_FOUND` when it was
 *   deleted between two pages, also when another log has its id now.
 */
export async function* pagesOf(
  file: SqliteFile,
  id: SessionId,
  { key }: SessionRow,
  { from, end, signal }: { from: number; end: number; signal: AbortSignal | undefined },
): AsyncGenerator<readonly Uint8Array[]> {
  for (let seq = from; seq < end;) {
    if (seq > from) await file.turns.next();
    signal?.throwIfAborted();
    const rows = await file.read(STATEMENTS.page, key, seq, end, PAGE);
    // Of a row that was removed meanwhile there are none, whether or not another has its id now.
    if (rows.length === 0) throw (await isRowOf(file, id, key)) ? missing(id, seq) : notFound(id);
    const bodies: Uint8Array[] = [];
    for (const [found, body] of rows as readonly [number, Uint8Array][]) {
      const next = seq + bodies.length;
      if (found !== next) throw missing(id, next);
      bodies.push(body);
    }
    yield bodies;
    seq += bodies.length;
  }
}

/** Keys are never used again. */
async function isRowOf(file: SqliteFile, id: SessionId, key: number): Promise<boolean> {
  return (await seek(file, id)).key === key;
}

function missing(id: SessionId, seq: number): StoreError {
  return new StoreError('STORE_CORRUPT', `Event ${seq} of session \`${id}\` is not in the store.`);
}
