/** Checks of paths that were given, before anything is built from them. */
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { UsageError } from './exit-codes.ts';

/** @throws {UsageError} when there is nothing at `absolute`, a folder, a pipe or a device. */
export async function assertFile(absolute: string, path: string): Promise<void> {
  const status = await stat(absolute).catch((error: unknown) => {
    throw new UsageError(`Cannot read "${path}": ${reasonOf(error)}.`, { cause: error });
  });
  if (status.isDirectory()) {
    throw new UsageError(`"${path}" is a folder: name its files, for example "${path}/**/*.md".`);
  }
  if (!status.isFile()) throw new UsageError(`"${path}" is no regular file.`);
}

export async function assertReadable(absolute: string, path: string): Promise<void> {
  await access(absolute, constants.R_OK).catch((error: unknown) => {
    throw new UsageError(`Cannot read "${path}": ${reasonOf(error)}.`, { cause: error });
  });
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'a part of its path is no folder',
  EACCES: 'permission denied',
  EISDIR: 'it is a folder',
  ENOSPC: 'there is no space left on the device',
  EADDRINUSE: 'something else listens there',
  EADDRNOTAVAIL: 'it is no address of this machine',
  ECONNREFUSED: 'connection refused',
  ENOTFOUND: 'the host name is not known',
};

export function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: string; message?: string };
  return REASONS[code ?? ''] ?? code ?? message ?? 'it failed';
}
