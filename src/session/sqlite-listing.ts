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
import { MOST_CHILDREN, STATEMENTS } from './sqlite-schema.ts';
import { byAge, isWithin } from './store-rules.ts';

/** Parents that are asked for together. */
const PARENTS = 200;
/** Parents below whom many levels are asked for at once. */
const FEW = 40;
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
  await walkBelow(
    file,
    { wide: STATEMENTS.below, deep: STATEMENTS.belowDeep },
    { roots, levels, signal, onRows },
  );
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
  await walkBelow(
    file,
    { wide: STATEMENTS.outline, deep: STATEMENTS.outlineDeep },
    { roots, levels, signal, onRows },
  );
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

interface Walk<R> {
  readonly roots: readonly SessionId[];
  readonly levels: number;
  readonly signal: AbortSignal | undefined;
  readonly onRows: (rows: readonly R[]) => void;
}

/**
 * All below these, each once. Level by level, so that what was seen is known before its children
 * are asked for: parents may go in a circle. Where few are beside each other many levels are read
 * together: each may be a single session, and a statement costs more than a row.
 */
async function walkBelow<R extends PlacedRow>(
  file: SqliteFile,
  { wide, deep }: { readonly wide: string; readonly deep: string },
  { roots, levels, signal, onRows }: Walk<R>,
): Promise<void> {
  const seen = new Set<string>(roots);
  const unseen = (rows: readonly R[]): readonly R[] => {
    const fresh: R[] = [];
    for (const row of rows) {
      if (seen.has(row[0])) continue;
      seen.add(row[0]);
      fresh.push(row);
    }
    onRows(fresh);
    return fresh;
  };
  let parents: readonly string[] = namesOf(seen);
  let level = 0;
  let reads = 0;
  while (level < levels && parents.length > 0) {
    if (parents.length <= FEW) {
      signal?.throwIfAborted();
      const values = [JSON.stringify(parents), levels - level, PAGE];
      const rows = (await file.read(deep, ...values)) as unknown as readonly R[];
      const isCut = rows.length + parents.length >= PAGE;
      const whole = wholeLevels(rows, isCut);
      const fresh = unseen(rows.filter((row) => depthOf(row) <= whole));
      if (++reads % READS === 0 || isCut) await nextTick();
      if (whole > 0) {
        level += whole;
        parents = fresh.filter((row) => depthOf(row) === whole).map(([id]) => id);
        continue;
      }
    }
    const children: string[] = [];
    for await (const rows of pagesOfLevel<R>(file, wide, parents, signal)) {
      for (const [id] of unseen(rows)) children.push(id);
      if (++reads % READS === 0 || rows.length === PAGE) await nextTick();
    }
    parents = children;
    level++;
  }
}

async function* pagesOfLevel<R extends PlacedRow>(
  file: SqliteFile,
  statement: string,
  parents: readonly string[],
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly R[]> {
  let from = 0;
  let after = START;
  while (from < parents.length) {
    signal?.throwIfAborted();
    const [first, ...others] = parents.slice(from, from + PARENTS) as [string, ...string[]];
    const values = [first, ...after, JSON.stringify(others), PAGE];
    const rows = (await file.read(statement, ...values)) as unknown as readonly R[];
    yield rows;
    // A full page ends somewhere among the children of its last row's parent.
    after = placeOf(rows) ?? START;
    if (after === START) from += 1 + others.length;
    else from += [first, ...others].indexOf(rows.at(-1)?.[2] as string);
  }
}

/**
 * How many levels of a deep reading are there with all of their sessions: not the last one of what
 * was cut off, nor one with a parent of whose children no more were asked for.
 */
function wholeLevels(rows: readonly PlacedRow[], isCut: boolean): number {
  const last = rows.at(-1);
  let whole = isCut && last !== undefined ? depthOf(last) - 1 : Infinity;
  const children = new Map<string | null, number>();
  for (const row of rows) {
    const count = (children.get(row[2]) ?? 0) + 1;
    children.set(row[2], count);
    if (count === MOST_CHILDREN) whole = Math.min(whole, depthOf(row) - 1);
  }
  return whole;
}

/** The last column of a deep reading: 1 for a child of those that were asked for. */
const depthOf = (row: PlacedRow): number => row.at(-1) as number;

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
