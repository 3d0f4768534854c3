/**
 * Looks at a SQLite file of sessions without being its user: a connection that only reads, one
 * reading of the whole, no lease taken. What a store would refuse to open is told as it is.
 */
import {
  closeSync,
  constants,
  lstatSync,
  openSync,
  readSync,
  realpathSync,
  statSync,
} from 'node:fs';
import { copyFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { DatabaseSync } from '@photostructure/sqlite';
import type { StoreFinding } from './log-exam.ts';
import { StoreError } from '../../protocol/errors.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { sentence } from './log-exam.ts';
import { Sql } from './sql.ts';
import { toStoreError } from './sqlite-errors.ts';
import { checkDatabase, checkSessions } from './sqlite-exam.ts';
import { versionOf } from './sqlite-schema.ts';

const BUSY_MS = 5_000;
/** Readings of a file that others open and close again all the while. */
const STILL_TRIES = 3;

/** @throws {StoreError} when the file is no store, or cannot be opened */
export async function checkFile(
  path: string,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFinding[]> {
  try {
    return await check(realPathOf(path), signal);
  } catch (error) {
    if (signal?.aborted === true && error === signal.reason) throw error;
    throw toStoreError(error, `Cannot check the store at ${path}`);
  }
}

/** What belongs to a file is beside it, and not beside a link to it. */
function realPathOf(path: string): string {
  try {
    return realpathSync(path);
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    if (!['ENOENT', 'ENOTDIR'].includes(code)) throw error;
    const text = `Cannot open the store at ${path}: the file does not exist.`;
    throw new StoreError('STORE_IO', text, { cause: error });
  }
}

async function check(
  path: string,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFinding[]> {
  for (let tries = 0; ; tries++) {
    const mayBeStill = tries < STILL_TRIES;
    // Nobody has it open: it is read as it lies there, or SQLite would make two files beside it.
    const isAlone = mayBeStill && !isThere(`${path}-wal`);
    // A crash, or whoever copied it, left two of the three files: SQLite would make the third.
    const isLeft = mayBeStill && !isAlone && !isThere(`${path}-shm`);
    if (!isAlone && !isLeft) return checkUsed(path, signal);
    const before = stateOf(path);
    const found = isLeft
      ? await checkCopy(path, signal)
      : await checkOpened(openAs(path, true), signal);
    // Somebody opened it meanwhile: then what was read need not be of one moment.
    const isStirred = isThere(`${path}-${isAlone ? 'wal' : 'shm'}`) || stateOf(path) !== before;
    if (!isStirred) return found;
  }
}

async function checkUsed(
  path: string,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFinding[]> {
  const before = stateOf(path);
  try {
    return await checkOpened(open(path), signal);
  } finally {
    // Whoever used it may have left, and could not clear away what this check was reading.
    if (stateOf(path) !== before) clearAway(path);
  }
}

/** Do what the last user of a file does when he closes it. While others use it, this is nothing. */
function clearAway(path: string): void {
  try {
    const url = pathToFileURL(path);
    // One that was removed meanwhile is not made again.
    url.searchParams.set('mode', 'rw');
    const database = new DatabaseSync(url);
    try {
      new Sql(database).run('PRAGMA schema_version');
    } finally {
      database.close();
    }
  } catch {
    // Whoever may write it does so when it is opened and closed the next time.
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
  const folder = await mkdtemp(join(tmpdir(), 'subagents-check-')).catch(() => undefined);
  if (folder === undefined) return checkOpened(openPart(path, NO_COPY), signal);
  const copy = join(folder, 'copy.db');
  try {
    const isCopied = await Promise.all(
      ['', '-wal'].map((end) => copyFile(path + end, copy + end, constants.COPYFILE_FICLONE)),
    ).then(
      () => true,
      () => false,
    );
    const opened = isCopied ? openAs(path, false, copy) : openPart(path, NO_COPY);
    return await checkOpened(opened, signal);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

interface Opened {
  readonly database: InstanceType<typeof DatabaseSync>;
  readonly sql: Sql;
  readonly version: number;
  /** The part beside the file could not be read. */
  readonly unread?: string;
}

async function checkOpened(
  { database, sql, version, unread }: Opened,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFinding[]> {
  const found: StoreFinding[] = [];
  if (unread !== undefined) {
    found.push({ severity: 'warning', kind: 'unread-part', text: unread });
  }
  try {
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

function open(path: string): Opened {
  try {
    return openAs(path, false);
  } catch (error) {
    if (!isShut(error)) throw error;
    return openPart(path, 'where nothing can be written');
  }
}

/** Where no file can be made for it, the part that is there already cannot be read. */
function openPart(path: string, why: string): Opened {
  const unread = `What was written last is in ${path}-wal, and cannot be read ${why}.`;
  try {
    return { ...openAs(path, true), unread };
  } catch (error) {
    throw new StoreError('STORE_READ_ONLY', `${unread} Check a copy of both.`, { cause: error });
  }
}

const NO_COPY = 'as no copy of both can be made in the folder for temporary files';

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
    // Whatever others write meanwhile.
    sql.holdReading();
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
