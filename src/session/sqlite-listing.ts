/** What a SQLite store knows of many sessions at once, read page by page. */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { SqliteFile } from './sqlite-file.ts';
import type { Checkpoint, DamagedSession, SessionOutline } from './store.ts';
import { StoreError } from '../../protocol/errors.ts';
import { toStoreError } from './sqlite-errors.ts';
import { decodeCheckpoint, decodeHeader, UNREADABLE } from './event-codec.ts';
import { isNameless, PAGE } from './sqlite-log.ts';
import { STATEMENTS } from './sqlite-schema.ts';
import { byAge, isWithin } from './store-rules.ts';

/** Parents that are asked for together. */
const PARENTS = 200;
/** Readings before other work gets a turn. */
const READS = 16;

type OnDamaged = (session: DamagedSession) => void;
type PlacedRow = readonly [id: string, createdAt: number, parent: string | null, ...unknown[]];
type Row = readonly [id: string, createdAt: number, parent: string | null, header: Uint8Array];
type OutlineRow = readonly [
  id: string,
  createdAt: number,
  parent: string | null,
  origin: string | null,
  seedLength: number | null,
  seq: number | null,
  checkpoint: string | null,
];
/** The order of the index; the first is before every row. */
type Place = readonly [createdAt: number, id: string];
const START: Place = [Number.MIN_SAFE_INTEGER, ''];

export async function listHeaders(
  file: SqliteFile,
  signal?: AbortSignal,
  onDamaged?: OnDamaged,
): Promise<readonly SessionHeader[]> {
  const headers: SessionHeader[] = [];
  let after: Place | undefined = START;
  while (after !== undefined) {
    signal?.throwIfAborted();
    const rows = (await file.read(STATEMENTS.list, ...after, PAGE)) as readonly Row[];
    take(rows, headers, onDamaged);
    after = placeOf(rows);
    if (after !== undefined) await nextTick();
  }
  return headers;
}

export async function listHeadersBelow(
  file: SqliteFile,
  roots: readonly SessionId[],
  levels: number,
  signal?: AbortSignal,
  onDamaged?: OnDamaged,
): Promise<readonly SessionHeader[]> {
  const headers: SessionHeader[] = [];
  const onRows = (rows: readonly Row[]): void => take(rows, headers, onDamaged);
  await walkBelow(file, STATEMENTS.below, { roots, levels, signal, onRows });
  return headers.sort(byAge);
}

export async function outlineBelow(
  file: SqliteFile,
  roots: readonly SessionId[],
  levels: number,
  signal?: AbortSignal,
  onDamaged?: OnDamaged,
): Promise<readonly SessionOutline[]> {
  const outlines: SessionOutline[] = [];
  const onRows = (rows: readonly OutlineRow[]): void => {
    for (const row of rows) {
      if (row[3] === UNREADABLE) onDamaged?.(damagedOf(row, unreadable(row[0])));
      else outlines.push(outlineOf(row));
    }
  };
  await walkBelow(file, STATEMENTS.outline, { roots, levels, signal, onRows });
  return outlines.sort(byAge);
}

export async function readCheckpoints(
  file: SqliteFile,
  ids: readonly SessionId[],
  signal?: AbortSignal,
): Promise<ReadonlyMap<SessionId, Checkpoint>> {
  const found = new Map<SessionId, Checkpoint>();
  const names = namesOf(ids);
  for (let from = 0; from < names.length; from += PAGE) {
    if (from > 0) await nextTick();
    signal?.throwIfAborted();
    const asked = JSON.stringify(names.slice(from, from + PAGE));
    const rows = await file.read(STATEMENTS.checkpoints, asked);
    for (const [id, length, seq, body] of rows as [SessionId, number, number, string][]) {
      const checkpoint = decodeCheckpoint(seq, body);
      if (checkpoint !== undefined && isWithin(checkpoint, length - 1)) found.set(id, checkpoint);
    }
  }
  return found;
}

/**
 * All below these, each once. Level by level, so that what was seen is known before its children
 * are asked for: parents may go in a circle.
 */
async function walkBelow<R extends PlacedRow>(
  file: SqliteFile,
  statement: string,
  {
    roots,
    levels,
    signal,
    onRows,
  }: {
    readonly roots: readonly SessionId[];
    readonly levels: number;
    readonly signal: AbortSignal | undefined;
    readonly onRows: (rows: readonly R[]) => void;
  },
): Promise<void> {
  const seen = new Set<string>(roots);
  let parents: readonly string[] = namesOf(seen);
  let reads = 0;
  for (let level = 0; level < levels && parents.length > 0; level++) {
    const children: string[] = [];
    let from = 0;
    let after = START;
    while (from < parents.length) {
      signal?.throwIfAborted();
      const [first, ...others] = parents.slice(from, from + PARENTS) as [string, ...string[]];
      const values = [first, ...after, JSON.stringify(others), PAGE];
      const rows = (await file.read(statement, ...values)) as unknown as readonly R[];
      const fresh = rows.filter(([id]) => !seen.has(id));
      for (const [id] of fresh) {
        seen.add(id);
        children.push(id);
      }
      onRows(fresh);
      // A full page ends somewhere among the children of its last row's parent.
      after = placeOf(rows) ?? START;
      if (after === START) from += 1 + others.length;
      else from += [first, ...others].indexOf(rows.at(-1)?.[2] as string);
      // A level may be one session, and there may be many levels.
      if (++reads % READS === 0 || rows.length === PAGE) await nextTick();
    }
    parents = children;
  }
}

/** After which row the next page begins; `undefined` when there is none. */
function placeOf(rows: readonly PlacedRow[]): Place | undefined {
  const last = rows.length === PAGE ? rows.at(-1) : undefined;
  return last && [last[1], last[0]];
}

function take(
  rows: readonly Row[],
  headers: SessionHeader[],
  onDamaged: OnDamaged | undefined,
): void {
  for (const [id, createdAt, parent, header] of rows) {
    try {
      headers.push(decodeHeader(id, header));
    } catch (thrown) {
      const error = toStoreError(thrown, `Cannot read session \`${id}\``);
      onDamaged?.(damagedOf([id, createdAt, parent], error));
    }
  }
}

function outlineOf([id, createdAt, parent, origin, seedLength, seq, text]: OutlineRow) {
  const checkpoint = text === null || seq === null ? undefined : decodeCheckpoint(seq, text);
  return {
    id: id as SessionId,
    createdAt,
    ...(parent === null ? {} : { parentSession: parent as SessionId }),
    ...(origin === null ? {} : { origin: origin as 'subagent' }),
    ...(seedLength === null ? {} : { seedLength }),
    ...(checkpoint === undefined || checkpoint.seq < -1 ? {} : { checkpoint }),
  };
}

const damagedOf = ([id, createdAt, parent]: PlacedRow, error: StoreError): DamagedSession => ({
  id: id as SessionId,
  createdAt,
  ...(parent === null ? {} : { parentSession: parent as SessionId }),
  error,
});

const unreadable = (id: string): StoreError =>
  new StoreError('STORE_CORRUPT', `The stored header of session \`${id}\` is damaged.`);

const namesOf = (ids: Iterable<string>): readonly string[] =>
  [...ids].filter((id) => !isNameless(id));
