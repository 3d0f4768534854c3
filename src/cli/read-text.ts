/** Reading a text that was named, without waiting for anybody and without taking more than fits. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import { reasonOf } from './checks.ts';
import { UsageError } from './exit-codes.ts';

const MIB = 1024 * 1024;
/** Of a task, a schema, a definition. */
const MAX_TEXT_BYTES = 8 * MIB;

/**
 * All of a regular file. A pipe is refused: opening one waits for whoever writes to it.
 *
 * @param what how a message calls it, with its name.
 * @throws {UsageError} when it cannot be read; the reason of `signal` once that aborted.
 */
export async function readText(
  { cwd, signal }: { readonly cwd: string; readonly signal: AbortSignal },
  path: string,
  what: string = `"${path}"`,
): Promise<string> {
  signal.throwIfAborted();
  try {
    // A pipe is opened at once, and only then known to be one.
    await using file = await open(resolve(cwd, path), constants.O_RDONLY | constants.O_NONBLOCK);
    const status = await file.stat();
    if (!status.isFile() && !status.isDirectory())
      throw new UsageError(`Cannot read ${what}: it is no regular file.`);
    // A file of the system can have more in it than it says.
    const source = file.createReadStream({ end: MAX_TEXT_BYTES, autoClose: false, signal });
    const parts: Buffer[] = [];
    for await (const part of source) parts.push(part as Buffer);
    const bytes = Buffer.concat(parts);
    if (bytes.length <= MAX_TEXT_BYTES) return bytes.toString('utf8');
    throw new UsageError(`Cannot read ${what}: it is larger than ${MAX_TEXT_BYTES / MIB} MiB.`);
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof UsageError) throw error;
    throw new UsageError(`Cannot read ${what}: ${reasonOf(error)}.`, { cause: error });
  }
}
