import type { StoreErrorCode } from '../../protocol/errors.ts';
import { StoreError } from '../../protocol/errors.ts';

/** SQLite's primary result codes, by what the caller can do about them. */
const CODES: Readonly<Record<number, readonly [StoreErrorCode, string]>> = {
  5: ['STORE_IO', 'another process held it locked for too long'],
  6: ['STORE_IO', 'it is locked'],
  7: ['STORE_IO', 'there is no memory for it'],
  8: ['STORE_READ_ONLY', 'it cannot be written'],
  10: ['STORE_IO', 'the disk failed'],
  11: ['STORE_CORRUPT', 'the file is damaged'],
  13: ['STORE_FULL', 'the disk is full'],
  14: ['STORE_IO', 'the file cannot be opened'],
  18: ['STORE_FULL', 'one event is larger than a row can be'],
  26: ['STORE_CORRUPT', 'the file is no database'],
};

/** What Node says when the file itself cannot be opened. */
const ERRNO: Readonly<Record<string, readonly [StoreErrorCode, string]>> = {
  ENOENT: ['STORE_IO', 'its folder does not exist'],
  ENOTDIR: ['STORE_IO', 'its folder does not exist'],
  EISDIR: ['STORE_IO', 'it is a folder'],
  EACCES: ['STORE_READ_ONLY', 'permission is denied'],
  EPERM: ['STORE_READ_ONLY', 'permission is denied'],
  EROFS: ['STORE_READ_ONLY', 'it is on a read-only file system'],
  ENOSPC: ['STORE_FULL', 'the disk is full'],
};

/** Whether it can be done later: another connection is writing. */
export function isBusy(error: unknown): boolean {
  const { errcode } = (error ?? {}) as { errcode?: unknown };
  return typeof errcode === 'number' && (errcode & 0xff) === 5;
}

/** `SQLITE_IOERR_WRITE`; `SQLITE_IOERR_FSYNC` */
const [WRITE, SYNC] = [10 | (3 << 8), 10 | (4 << 8)];

/** Whether a commit that failed so may have written all that it had to. */
export function mayBeWritten(error: unknown): boolean {
  const { errcode } = (error ?? {}) as { errcode?: unknown };
  return typeof errcode === 'number' && (errcode & 0xff) === 10 && errcode !== WRITE;
}

/** Whether all was written, and only the disk did not say that it has it. */
export function isSyncFailure(error: unknown): boolean {
  return ((error ?? {}) as { errcode?: unknown }).errcode === SYNC;
}

/** One `StoreError` for whatever went wrong while doing `what`. A `StoreError` stays itself. */
export function toStoreError(error: unknown, what: string): StoreError {
  if (error instanceof StoreError) return error;
  const { errcode, code } = (error ?? {}) as { errcode?: unknown; code?: unknown };
  // The low byte is the primary code; the rest says more of the same.
  const known =
    typeof errcode === 'number'
      ? CODES[errcode & 0xff]
      : ERRNO[typeof code === 'string' ? code : ''];
  const [storeCode, fact] = known ?? [
    'STORE_IO',
    error instanceof Error ? error.message : 'it failed',
  ];
  return new StoreError(storeCode, `${what}: ${fact}.`, { cause: error });
}
