/** What a SQLite store knows of many sessions at once, read page by page. */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { SqliteFile } from './sqlite-file.ts';
import type { Checkpoint, DamagedSession } from './store.ts';
import { toStoreError } from './sqlite-errors.ts';
import { decodeCheckpoint, decodeHeader } from './event-codec.ts';
import { isNameless, PAGE } from './sqlite-log.ts';
import { STATEMENTS } from './sqlite-schema.ts';
import { byAge, isWithin } from './store-rules.ts';

/** Parents that are asked for together. */
const PARENTS = 200;

type OnDamaged = (session: DamagedSession) => void;
type Row = readonly [id: string, createdAt: number, parent: string | null, header: Uint8Array];
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

/** Level by level, so that what was seen is known before its children are asked for. */
export async function listHeadersBelow(
  file: SqliteFile,
  roots: readonly SessionId[],
  levels: number,
  signal?: AbortSignal,
  onDamaged?: OnDamaged,
): Promise<readonly SessionHeader[]> {
  const headers: SessionHeader[] = [];
  const seen = new Set<string>(roots);
  let parents: readonly string[] = namesOf(seen);
  for (let level = 0; level < levels && parents.length > 0; level++) {
    const children: string[] = [];
    for await (const rows of childrenOf(file, parents, signal)) {
      const fresh = rows.filter(([id]) => !seen.has(id));
      for (const [id] of fresh) {
        seen.add(id);
        children.push(id);
      }
      take(fresh, headers, onDamaged);
    }
    parents = children;
  }
  return headers.sort(byAge);
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
    for (const [id, length, seq, body] of rows as [SessionId, number, number, Uint8Array][]) {
      const checkpoint = decodeCheckpoint(seq, body);
      if (checkpoint !== undefined && isWithin(checkpoint, length - 1)) found.set(id, checkpoint);
    }
  }
  return found;
}

async function* childrenOf(
  file: SqliteFile,
  parents: readonly string[],
  signal: AbortSignal | undefined,
): AsyncGenerator<readonly Row[]> {
  let from = 0;
  let after = START;
  while (from < parents.length) {
    signal?.throwIfAborted();
    const [first, ...others] = parents.slice(from, from + PARENTS) as [string, ...string[]];
    const values = [first, ...after, JSON.stringify(others), PAGE];
    const rows = (await file.read(STATEMENTS.below, ...values)) as readonly Row[];
    yield rows;
    // A full page ends somewhere among the children of its last row's parent.
    after = placeOf(rows) ?? START;
    if (after === START) from += 1 + others.length;
    else from += [first, ...others].indexOf(rows.at(-1)?.[2] as string);
    if (from < parents.length) await nextTick();
  }
}

/** After which row the next page begins; `undefined` when there is none. */
function placeOf(rows: readonly Row[]): Place | undefined {
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
      const more = parent === null ? {} : { parentSession: parent as SessionId };
      onDamaged?.({ id: id as SessionId, createdAt, ...more, error });
    }
  }
}

const namesOf = (ids: Iterable<string>): readonly string[] =>
  [...ids].filter((id) => !isNameless(id));
