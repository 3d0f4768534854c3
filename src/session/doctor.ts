/** Looks at all that a store holds, and says what is wrong with it. Changes nothing of that. */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { StoreFinding } from './log-exam.ts';
import type { SessionPersistence } from './store.ts';
import { ArgumentError, StoreError } from '../../protocol/errors.ts';
import { assertSignal } from '../base/assert-options.ts';
import { leads, LogExam, orphan, unreadableHeader } from './log-exam.ts';
import { checkFile } from './sqlite-check.ts';

const PAGE = 256;

/**
 * Check a store: an SQLite file by its path, also one that another process has open, or a store
 * of your own as far as its methods tell. Nothing of what is stored is changed, and nothing is
 * taken over; beside a file that is in use, what its user would clear away may be cleared away. SQLite keeps no checksums: words that were altered where they stand, so
 * that they are words still, are not found.
 *
 * @throws {StoreError} when it is no store, or cannot be opened
 * @throws {ArgumentError}
 */
export async function checkStore(
  store: string | SessionPersistence,
  signal?: AbortSignal,
): Promise<readonly StoreFinding[]> {
  assertSignal('checkStore', signal);
  if (store === ':memory:' || store === '') {
    throw new ArgumentError('What is checked is a file: a store in memory has none.');
  }
  if (typeof store === 'string') return checkFile(store, signal);
  if (typeof (store as Partial<SessionPersistence> | null)?.list !== 'function') {
    throw new ArgumentError('checkStore takes the path of a file, or a store.');
  }
  const found: StoreFinding[] = [];
  const damaged = new Set<SessionId>();
  const headers = await store.list(signal, ({ id, error }) => {
    damaged.add(id);
    found.push(unreadableHeader(id, error));
  });
  const ids = new Set([...headers.map(({ id }) => id), ...damaged]);
  for (const header of headers) {
    found.push(...orphan(header, (id) => ids.has(id)));
    found.push(...(await checkLog(store, header, signal)));
    await nextTick();
  }
  return found;
}

async function checkLog(
  store: SessionPersistence,
  { id, seedLength }: SessionHeader,
  signal: AbortSignal | undefined,
): Promise<readonly StoreFinding[]> {
  const exam = new LogExam(id, seedLength);
  let length = 0;
  try {
    for (;;) {
      const events = await store.readFrom(id, length, signal, PAGE);
      if (events.length === 0) break;
      for (const event of events) exam.take(event.seq, () => event);
      length += events.length;
    }
    const checkpoint = (await store.checkpoints?.([id], signal))?.get(id);
    if (checkpoint !== undefined && checkpoint.seq >= length) {
      exam.find('warning', 'leading-checkpoint', leads(checkpoint.seq, length));
    }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    // Removed meanwhile: there is nothing to say of it.
    if (error.code === 'SESSION_NOT_FOUND') return [];
    exam.take(length, () => {
      throw error;
    });
  }
  return exam.end(undefined, false);
}
