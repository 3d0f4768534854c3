/**
 * Looks at a SQLite file of sessions without being its user: a connection that only reads, one
 * reading of the whole, no lease taken. What a store would refuse to open is told as it is.
 */
import { closeSync, constants, lstatSync, openSync, readSync, statSync } from 'node:fs';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTick } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { StoreFinding } from './log-exam.ts';
import { StoreError } from '../../protocol/errors.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { decodeCheckpoint, decodeEvent, decodeHeader } from './event-codec.ts';
import { countOf, leads, LogExam, orphan, sentence, unreadableHeader } from './log-exam.ts';
import { Sql } from './sql.ts';
import { toStoreError } from './sqlite-errors.ts';
import { SCHEMA_VERSION, versionOf } from './sqlite-schema.ts';
import { heldElsewhere, newOwner } from './store-owner.ts';

const BUSY_MS = 5_000;
const PAGE = 200;
/** Readings of a file that others open and close again all the while. */
const STILL_TRIES = 3;
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

/** @throws {StoreError} when the file is no store, or cannot be opened */
export async function checkFile(
  path: string,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFinding[]> {
  for (let tries = 0; ; tries++) {
    const mayBeStill = tries < STILL_TRIES && isThere(path);
    // Nobody has it open: it is read as it lies there, or SQLite would make two files beside it.
    const isAlone = mayBeStill && !isThere(`${path}-wal`);
    // A crash, or whoever copied it, left two of the three files: SQLite would make the third.
    const isLeft = mayBeStill && !isAlone && !isThere(`${path}-shm`);
    const before = stateOf(path);
    const found = isLeft
      ? await checkCopy(path, signal)
      : await checkOpened(path, open(path, isAlone), signal);
    // Somebody opened it meanwhile: then what was read need not be of one moment.
    const isStirred = isThere(`${path}-${isAlone ? 'wal' : 'shm'}`) || stateOf(path) !== before;
    if ((isAlone || isLeft) && isStirred) continue;
    return found;
  }
}

/** Also a link to nothing: in its place nothing can be made. */
const isThere = (path: string): boolean => lstatSync(path, { throwIfNoEntry: false }) !== undefined;

const stateOf = (path: string): string =>
  [path, `${path}-wal`]
    .map((one) => statSync(one, { throwIfNoEntry: false }))
    .map((stat) => [stat?.mtimeMs, stat?.size, stat?.ino].join(' '))
    .join();

/** What was written last is in the second file: both are read where a third one is in nobody's way. */
async function checkCopy(
  path: string,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFinding[]> {
  const folder = await mkdtemp(join(tmpdir(), 'subagents-check-'));
  const copy = join(folder, 'copy.db');
  try {
    const isCopied = await Promise.all(
      ['', '-wal'].map((end) => copyFile(path + end, copy + end, constants.COPYFILE_FICLONE)),
    ).then(
      () => true,
      () => false,
    );
    const opened = isCopied ? openAs(path, false, copy) : openPart(path);
    return await checkOpened(path, opened, signal);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

interface Opened {
  readonly database: InstanceType<typeof DatabaseSync>;
  readonly sql: Sql;
  readonly version: number;
  /** The part beside the file could not be read. */
  readonly isPart?: boolean;
}

async function checkOpened(
  path: string,
  { database, sql, version, isPart = false }: Opened,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFinding[]> {
  const found: StoreFinding[] = [];
  if (isPart) {
    found.push({ severity: 'warning', kind: 'unread-part', text: unreadPart(path) });
  }
  try {
    // One reading of all that follows, whatever others write meanwhile.
    sql.run('BEGIN DEFERRED');
    found.push(...checkDatabase(sql, version));
    await checkSessions(sql, version, found, signal);
  } catch (error) {
    if (signal?.aborted === true && error === signal.reason) throw error;
    const text = sentence(`It cannot be read any further: ${toErrorRecord(error).message}`);
    found.push({ severity: 'error', kind: 'damaged-file', text });
  } finally {
    database.close();
  }
  return found;
}

function open(path: string, isAlone: boolean): Opened {
  if (!isThere(path)) {
    const text = `Cannot open the store at ${path}: the file does not exist.`;
    throw new StoreError('STORE_IO', text);
  }
  try {
    return openAs(path, isAlone);
  } catch (error) {
    if (isAlone || !isShut(error)) throw error;
    return openPart(path);
  }
}

/** Where no file can be made beside it, the part that is there already cannot be read. */
function openPart(path: string): Opened {
  try {
    return { ...openAs(path, true), isPart: true };
  } catch (error) {
    throw new StoreError('STORE_READ_ONLY', `${unreadPart(path)} Check a copy of both.`, {
      cause: error,
    });
  }
}

const unreadPart = (path: string): string =>
  `What was written last is in ${path}-wal, and cannot be read where nothing can be written.`;

/** SQLite says that the database is read-only, or that a file cannot be opened. */
function isShut(error: unknown): boolean {
  const { errcode = 0 } = ((error as Error).cause ?? {}) as { errcode?: number };
  return [8, 14].includes(errcode & 0xff);
}

/**
 * @param isStill nobody writes it: it is read as if it could not be, without locks
 * @param at where it is read, if that is a copy
 */
function openAs(path: string, isStill: boolean, at = path): Opened {
  let database: InstanceType<typeof DatabaseSync> | undefined;
  try {
    // Says why, when it cannot be.
    readFirst(at);
    const url = pathToFileURL(at);
    url.searchParams.set('immutable', '1');
    const options = { readOnly: true, timeout: BUSY_MS };
    database = new DatabaseSync(isStill ? url : at, options);
    const sql = new Sql(database);
    const version = versionOf(sql, path);
    if (version === 0) {
      throw new StoreError('STORE_FORMAT_UNSUPPORTED', `The file at ${path} is empty.`);
    }
    return { database, sql, version };
  } catch (error) {
    database?.close();
    throw toStoreError(error, `Cannot open the store at ${path}`);
  }
}

function readFirst(path: string): void {
  const file = openSync(path, 'r');
  try {
    readSync(file, new Uint8Array(1));
  } finally {
    closeSync(file);
  }
}

function* checkDatabase(sql: Sql, version: number): Iterable<StoreFinding> {
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

async function checkSessions(
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
