/**
 * Removing sessions. All that goes is held first, so that nothing of it can begin to live, here
 * or in another process; then it goes from below, in bounded transactions: whatever ends it in
 * the middle leaves a tree that is smaller, and whole.
 */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { SessionId } from '../../protocol/ids.ts';
import type { Offline } from './offline.ts';
import type { DamagedSession } from './store.ts';
import { ArgumentError, StoreError } from '../../protocol/errors.ts';
import { assertOptions, assertSignal } from '../base/assert-options.ts';
import { withBelow } from './offline.ts';
import { giveBack } from './store-rules.ts';

/** How much is removed. */
export interface RemoveOptions {
  /** Also all that descends from it. Default true. */
  readonly below?: boolean;
}

/** Sessions in one transaction. */
const AT_ONCE = 32;

/**
 * Resolves to what was removed, parents first.
 * @throws {ArgumentError | StoreError}
 */
export async function removeSessions(
  offline: Offline,
  root: SessionId,
  options: RemoveOptions,
  signal: AbortSignal | undefined,
): Promise<readonly SessionId[]> {
  assertOptions('remove', options, { below: 'any' });
  assertSignal('remove', signal);
  const { below = true } = options;
  if (typeof root !== 'string') throw new ArgumentError('What is removed is named by its id.');
  if (typeof below !== 'boolean') {
    throw new ArgumentError('"below" of remove takes true or false.');
  }
  const { store } = offline;
  const held = new Map<SessionId, () => void>();
  let acquired: SessionId[] = [];
  try {
    // What is held starts nothing any more. So when nothing new is found, that is all there is.
    for (let more: readonly SessionId[] = [root]; more.length > 0;) {
      for (const id of more) held.set(id, await offline.reserve(id, signal));
      for (const id of more) {
        if (signal?.aborted === true) throw signal.reason;
        if (await isAcquired(store, id, id === root)) acquired.push(id);
      }
      const found = below ? await allBelow(offline, root, signal) : [root];
      more = found.filter((id) => !held.has(id));
    }
    const ids = [...acquired];
    // A session is found after the one it is below, so the last are never above one that stays.
    while (acquired.length > 0) {
      if (signal?.aborted === true) throw signal.reason;
      const last = acquired.slice(-AT_ONCE);
      await store.delete(last);
      acquired = acquired.slice(0, -AT_ONCE);
      for (const id of last) offline.removed(id);
      await nextTick();
    }
    return ids;
  } finally {
    // What stays.
    if (acquired.length > 0) await giveBack(store, acquired);
    for (const free of held.values()) free();
  }
}

/** Whether it is held now. One below that was never stored, and has left, is none any more. */
async function isAcquired(
  store: Offline['store'],
  id: SessionId,
  isRoot: boolean,
): Promise<boolean> {
  try {
    await store.acquire(id);
    return true;
  } catch (error) {
    if (!isRoot && error instanceof StoreError && error.code === 'SESSION_NOT_FOUND') return false;
    throw error;
  }
}

/**
 * The session and what is below it, parents first: in the store, or live and perhaps still to be
 * stored.
 */
async function allBelow(
  { store, list }: Offline,
  root: SessionId,
  signal: AbortSignal | undefined,
): Promise<readonly SessionId[]> {
  const damaged: DamagedSession[] = [];
  const onDamaged = (session: DamagedSession): void => void damaged.push(session);
  const headers =
    store.listBelow === undefined
      ? await store.list(signal, onDamaged)
      : await store.listBelow([root], Infinity, signal, onDamaged);
  const live = list().map(({ header }) => header);
  return withBelow(root, [...headers, ...damaged, ...live]);
}
