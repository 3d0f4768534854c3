/** Looks at the rows of a SQLite file of sessions: what each of them is to be to the others. */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { StoreFinding } from './log-exam.ts';
import { decodeCheckpoint, decodeEvent, decodeHeader } from './event-codec.ts';
import { countOf, leads, LogExam, orphan, sentence, unreadableHeader } from './log-exam.ts';
import type { Sql } from './sql.ts';
import { SCHEMA_VERSION } from './sqlite-schema.ts';
import { heldElsewhere, newOwner } from './store-owner.ts';

const PAGE = 200;
/** Complaints of the database about itself that are told. */
const COMPLAINTS = 20;

/** A file of version 1 has no parents in its rows, and none can be wrong. */
const SESSIONS = (version: number): string =>
  `SELECT give(key, id, created_at, header, length, owner, lease_until
    ${version < 2 ? '' : ', parent, origin, seed_length'})
  FROM session WHERE key > arg(0) ORDER BY key LIMIT ${PAGE}`;
const EVENTS = `SELECT give(seq, body) FROM event
  WHERE session = arg(0) AND seq > arg(1) ORDER BY seq LIMIT ${PAGE}`;
const CHECKPOINT = 'SELECT give(seq, body) FROM checkpoint WHERE session = arg(0)';
const ORPHANS = 'SELECT give("table", count(*)) FROM pragma_foreign_key_check GROUP BY "table"';

type Row = [
  key: number,
  SessionId,
  createdAt: number,
  Uint8Array,
  length: number,
  owner: string | null,
  leaseUntil: number,
  parent?: string | null,
  origin?: string | null,
  seedLength?: number | null,
];

/** What SQLite and the schema say of the whole. */
export function* checkDatabase(sql: Sql, version: number): Iterable<StoreFinding> {
  if (version < SCHEMA_VERSION) {
    const text = `It has format ${version}, and gets format ${SCHEMA_VERSION} when it is opened.`;
    yield { severity: 'note', kind: 'old-format', text };
  }
  const complaints = sql.run(
    `SELECT give(integrity_check) FROM pragma_integrity_check LIMIT ${COMPLAINTS}`,
  );
  for (const [text] of complaints) {
    if (text !== 'ok')
      yield { severity: 'error', kind: 'damaged-file', text: sentence(String(text)) };
  }
  for (const [table, count] of sql.run(ORPHANS)) {
    // Events without their session are what was said in it; a checkpoint can be made again.
    const severity = table === 'event' ? 'error' : 'warning';
    const belong = count === 1 ? 'belongs' : 'belong';
    const text = `${countOf(Number(count), 'row')} of \`${String(table)}\` ${belong} to no session.`;
    yield { severity, kind: 'orphan-rows', text };
  }
}

/** What the rows of each session say. */
export async function checkSessions(
  sql: Sql,
  version: number,
  found: StoreFinding[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const ids = new Set(sql.run('SELECT give(id) FROM session').map(([id]) => id as SessionId));
  let last = Number.MIN_SAFE_INTEGER;
  for (;;) {
    const rows = sql.run(SESSIONS(version), last) as unknown as readonly Row[];
    if (rows.length === 0) return;
    for (const row of rows) {
      await checkSession(sql, version, row, { ids, found, signal });
    }
    last = (rows.at(-1) as Row)[0];
  }
}

async function checkSession(
  sql: Sql,
  version: number,
  [key, id, createdAt, packed, length, owner, leaseUntil, ...place]: Row,
  {
    ids,
    found,
    signal,
  }: {
    readonly ids: ReadonlySet<SessionId>;
    readonly found: StoreFinding[];
    readonly signal: AbortSignal | undefined;
  },
): Promise<void> {
  let header: SessionHeader | undefined;
  try {
    header = decodeHeader(id, packed);
    found.push(...orphan(header, (parent) => ids.has(parent)));
  } catch (error) {
    found.push(unreadableHeader(id, error));
  }
  const exam = new LogExam(id, header?.seedLength);
  if (header !== undefined && (header.id !== id || header.createdAt !== createdAt)) {
    exam.find('error', 'wrong-row', `Its row and its header are of different sessions.`);
  } else if (header !== undefined && !isAt(header, place)) {
    exam.find('error', 'wrong-place', placeProblem(header, place));
  }
  let last = Number.MIN_SAFE_INTEGER;
  for (;;) {
    if (signal?.aborted === true) throw signal.reason;
    const rows = sql.run(EVENTS, key, last) as readonly [number, Uint8Array][];
    if (rows.length === 0) break;
    for (const [seq, body] of rows) exam.take(seq, () => decodeEvent(seq, body));
    last = (rows.at(-1) as [number, Uint8Array])[0];
    await nextTick();
  }
  const lease = owner === null ? undefined : leaseOf(id, owner, leaseUntil);
  found.push(...exam.end(length, lease?.kind === 'held'));
  if (lease !== undefined) found.push(lease);
  for (const [seq, body] of version < 2 ? [] : sql.run(CHECKPOINT, key)) {
    const finding = checkpointProblem(id, Number(seq), String(body), length);
    if (finding !== undefined) found.push(finding);
  }
}

function placeProblem(
  { parentSession, origin, seedLength }: SessionHeader,
  [parent, ...rest]: readonly unknown[],
): string {
  if ((parentSession ?? null) !== parent) {
    const [said, is] = [parent, parentSession].map((id) =>
      typeof id === 'string' ? `\`${id}\`` : 'none',
    );
    const missing = parentSession === undefined ? '' : ": it is missing from its parent's listing";
    return `Its row says that its parent is ${said}, and its header ${is}${missing}.`;
  }
  const what = (origin ?? null) === rest[0] ? `inherited ${seedLength ?? 0} events` : 'was made';
  return `Its row and its header differ in how it ${what}: listings show it otherwise than it is.`;
}

/** Whether listings, which read rows alone, find it where its header says it is. */
function isAt(
  { parentSession, origin, seedLength }: SessionHeader,
  place: readonly unknown[],
): boolean {
  const said = [parentSession, origin, seedLength];
  return place.length === 0 || said.every((value, index) => (value ?? null) === place[index]);
}

function checkpointProblem(
  session: SessionId,
  seq: number,
  body: string,
  length: number,
): StoreFinding | undefined {
  if (seq >= length) {
    const text = leads(seq, length);
    return { severity: 'warning', kind: 'leading-checkpoint', session, text };
  }
  if (decodeCheckpoint(seq, body) !== undefined) return undefined;
  const text = 'Its checkpoint cannot be read; it is made again.';
  return { severity: 'note', kind: 'unreadable-checkpoint', session, text };
}

function leaseOf(session: SessionId, text: string, leaseUntil: number): StoreFinding {
  const holder = heldElsewhere(session, text, leaseUntil, newOwner(), Date.now());
  if (holder !== undefined) {
    return { severity: 'note', kind: 'held', session, text: sentence(holder.message) };
  }
  const over =
    'Whoever held it is gone without giving it back; it is taken over when it is resumed.';
  return { severity: 'note', kind: 'held-by-the-dead', session, text: over };
}
