/** `subagents import`: sessions from lines of JSON. */
import { createReadStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { ImportArguments } from '../args/move.ts';
import type { Call } from '../call.ts';
import { assertFile, assertReadable } from '../checks.ts';
import { EXIT } from '../exit-codes.ts';
import { storeFile } from '../input.ts';
import { counted, printJson } from '../output.ts';
import { openStore } from '../store-file.ts';
import { cleanLine } from '../text.ts';

export async function importVerb(given: ImportArguments, call: Call): Promise<number> {
  const { streams, surroundings, signal } = call;
  const { cwd } = surroundings;
  const source = await linesFrom(given.file, call);
  const path = await storeFile(resolve(cwd, given.store));
  const isNew = (await stat(path).catch(() => undefined)) === undefined;
  const harness = await openStore(path);
  let hasFailed = true;
  try {
    let damaged = 0;
    const imported = await harness.sessions.importLines(source, {
      ids: given.newIds === true ? 'new' : 'keep',
      signal,
      onDamaged({ id, text }) {
        damaged += 1;
        streams.stderr.write(`subagents: session ${id} is left out: ${cleanLine(text)}\n`);
      },
    });
    hasFailed = false;
    if (given.json === true) {
      for (const [from, id] of imported) await printJson(streams.stdout, { from, id }, signal);
    } else {
      streams.stdout.write(`Imported ${counted(imported.size, 'session')}.\n`);
    }
    return damaged === 0 ? EXIT.completed : EXIT.partial;
  } finally {
    await harness.dispose();
    // Nothing was imported, and so there is no store that was not there before.
    if (hasFailed && isNew) {
      for (const end of ['', '-wal', '-shm']) await rm(`${path}${end}`, { force: true });
    }
  }
}

/** @throws {UsageError} when it cannot be read. */
async function linesFrom(
  file: string,
  { streams, surroundings, signal }: Call,
): Promise<AsyncIterable<string>> {
  if (file === '-') return linesOf(() => streams.stdin, signal);
  const path = resolve(surroundings.cwd, file);
  await assertFile(path, file);
  await assertReadable(path, file);
  return linesOf(() => createReadStream(path), signal);
}

/** Opened with the first line that is wanted: lines that come before that would be lost. */
async function* linesOf(
  open: () => NodeJS.ReadableStream,
  signal: AbortSignal,
): AsyncGenerator<string> {
  yield* createInterface({ input: open(), crlfDelay: Infinity, signal });
  // What ends with it is cut off.
  signal.throwIfAborted();
}
