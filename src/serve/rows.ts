/** The rows of a tree: what is live as it is now, and what is stored as its log says. */
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { SessionPersistence } from '../session/store.ts';
import type { Board } from './board.ts';
import type { RowDiagnostic, RowListing, SessionRow } from './operation-map.ts';
import { StoreError } from '../../protocol/errors.ts';
import { sessionOf } from './board.ts';
import { NOTHING_SHOWN, readCold, shownIn } from './cold-rows.ts';
import type { Shown, Unshown } from './cold-rows.ts';
import { withBelow } from '../session/offline.ts';

/**
 * Rows of all sessions and external runs, or of one and all below it; a session that is made or
 * removed meanwhile may be there or not.
 *
 * @param onCut called in the moment of which the rows are: what happens from then on is in none
 * @throws {StoreError} when the store cannot say what there is; `SESSION_NOT_FOUND` for the root
 */
export async function listRows(
  board: Board,
  rootId: string | undefined,
  signal: AbortSignal,
  onCut: () => void = () => {},
): Promise<RowListing> {
  const diagnostics: RowDiagnostic[] = [];
  const rows = new Map<string, SessionRow>();
  const { harness } = board;
  // What ends while this reads is read again: its row may be of before its last life.
  const ended = new Set<SessionId>();
  const off = harness.on('session/disposed', ({ session }) => ended.add(session.id));
  try {
    const damaged = (row: RowDiagnostic): unknown => diagnostics.push(row);
    const stored = await storedHeaders(board, rootId, signal, damaged);
    const cold = stored.filter(({ id }) => sessionOf(harness, id) === undefined);
    const note = (header: SessionHeader, found: Shown | Unshown): void => {
      const row = coldRow(header, found);
      if ('mode' in row) rows.set(row.id, row);
      else diagnostics.push(row);
    };
    await readCold(harness, cold, signal, note);
    for (const id of ended) {
      ended.delete(id);
      const header = await headerOf(harness.sessionPersistence, id, signal);
      if (header !== undefined) await readCold(harness, [header], signal, note);
    }
  } finally {
    off();
  }
  // Live ones last and in one span: what became live meanwhile is shown as it is, all as of now.
  onCut();
  for (const session of harness.sessions.list()) rows.set(session.id, liveRow(board, session));
  for (const run of board.externals.values()) rows.set(run.id, externalRow(rows, run));
  const listed = inOrder([...rows.values()], rootId);
  if (rootId !== undefined && listed[0]?.id !== rootId && diagnostics.length === 0) {
    throw unknown(rootId);
  }
  return { rows: listed, diagnostics };
}

export function unknown(id: string): StoreError {
  return new StoreError('SESSION_NOT_FOUND', `There is no session \`${id}\`.`);
}

async function storedHeaders(
  { harness }: Board,
  rootId: string | undefined,
  signal: AbortSignal,
  onDamaged: (row: RowDiagnostic) => unknown,
): Promise<readonly SessionHeader[]> {
  const { sessionPersistence: store } = harness;
  const damaged: NonNullable<Parameters<SessionPersistence['list']>[1]> = (session) => {
    const { id, parentSession: parentId, error } = session;
    const isNewer = error.code === 'STORE_FORMAT_UNSUPPORTED';
    const reason = isNewer ? 'unsupported' : 'corrupt';
    onDamaged({ id, ...(parentId === undefined ? {} : { parentId }), reason });
  };
  if (rootId === undefined) return store.list(signal, damaged);
  const root = rootId as SessionId;
  const own = await headerOf(store, root, signal);
  const above = own === undefined ? [] : [own];
  // What is live may be in no store yet, and have stored sessions below it.
  if (store.listBelow !== undefined) {
    return [...above, ...(await store.listBelow([root], Infinity, signal, damaged))];
  }
  const all = await store.list(signal, damaged);
  const below = new Set(withBelow(root, all));
  return all.filter(({ id }) => below.has(id));
}

/** Of one that is stored; its log is not read where the store can do without. */
export async function headerOf(
  store: SessionPersistence,
  id: SessionId,
  signal: AbortSignal,
): Promise<SessionHeader | undefined> {
  try {
    if (store.headerOf !== undefined) return await store.headerOf(id, signal);
    return (await store.inspect(id, signal)).header;
  } catch (error) {
    if (error instanceof StoreError && error.code === 'SESSION_NOT_FOUND') return undefined;
    throw error;
  }
}

function liveRow(board: Board, session: NonNullable<ReturnType<typeof sessionOf>>): SessionRow {
  let shown: Shown = NOTHING_SHOWN;
  try {
    shown = shownIn(session.header, board.harness.sessionProjections.snapshot(session).values);
  } catch {
    // A unit of somebody else's that fails: the row has what does not come from its log.
  }
  const label = board.labelOf(session.id);
  return { ...rowOf(session.header, shown, label), live: true, ...board.statusOf(session) };
}

function coldRow(header: SessionHeader, found: Shown | Unshown): SessionRow | RowDiagnostic {
  if (typeof found === 'string') {
    const { id, parentSession: parentId } = header;
    return { id, ...(parentId === undefined ? {} : { parentId }), reason: found };
  }
  const { reason, failure } = found.summary;
  return {
    ...rowOf(header, found, undefined),
    live: false,
    status: 'settled',
    ...(reason === undefined ? {} : { reason }),
    ...(failure === undefined ? {} : { failure }),
  };
}

function rowOf(
  header: SessionHeader,
  { identity, summary }: Shown,
  delegation: string | undefined,
): Omit<SessionRow, 'live' | 'status'> {
  const { id, parentSession: parentId, delegationDepth: depth = 0, createdAt } = header;
  const label = identity?.label ?? delegation;
  const { workedMs, since, tokens, line } = summary;
  const lastLine = line.trim();
  return {
    id,
    ...(parentId === undefined ? {} : { parentId }),
    depth,
    mode: identity?.mode ?? (header.origin === 'subagent' ? 'one-shot' : 'root'),
    ...(label === undefined ? {} : { label }),
    createdAt,
    workedMs,
    ...(since === undefined ? {} : { workingSince: since }),
    ...(tokens === undefined ? {} : { tokens }),
    ...(lastLine === '' ? {} : { lastLine }),
  };
}

function externalRow(
  rows: ReadonlyMap<string, SessionRow>,
  { id, parent, label, startedAt }: NonNullable<ReturnType<Board['externals']['get']>>,
): SessionRow {
  return {
    id,
    parentId: parent,
    depth: (rows.get(parent)?.depth ?? 0) + 1,
    mode: 'external',
    ...(label === undefined ? {} : { label }),
    live: true,
    status: 'running',
    createdAt: startedAt,
    workedMs: 0,
    workingSince: startedAt,
  };
}

/** Each in front of its children, by age, then id. Without recursion: a chain may be of any length. */
function inOrder(rows: readonly SessionRow[], rootId: string | undefined): readonly SessionRow[] {
  const byAge = [...rows].sort(
    (a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0),
  );
  const known = new Set(rows.map(({ id }) => id));
  const children = new Map<string, SessionRow[]>();
  const tops: SessionRow[] = [];
  for (const row of byAge) {
    const { parentId } = row;
    if (rootId === undefined ? parentId === undefined || !known.has(parentId) : row.id === rootId) {
      tops.push(row);
    }
    if (parentId === undefined) continue;
    const siblings = children.get(parentId);
    if (siblings === undefined) children.set(parentId, [row]);
    else siblings.push(row);
  }
  const listed: SessionRow[] = [];
  const seen = new Set<string>();
  const waiting = tops.toReversed();
  for (let row = waiting.pop(); row !== undefined; row = waiting.pop()) {
    if (seen.has(row.id)) continue;
    seen.add(row.id);
    listed.push(row);
    for (const child of (children.get(row.id) ?? []).toReversed()) waiting.push(child);
  }
  return listed;
}
