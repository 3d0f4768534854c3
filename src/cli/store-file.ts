/** A store that is there already, opened for one command and let go of after it. */
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { createHarness, HarnessError, type Harness, type SessionId } from '../index.ts';
import type { Call } from './call.ts';
import { reasonOf } from './checks.ts';
import { UsageError } from './exit-codes.ts';

/** @throws {UsageError} when there is no file, or nothing in it. */
export async function existingStore(store: string, cwd: string): Promise<string> {
  const path = resolve(cwd, store);
  const status = await stat(path).catch((error: unknown) => {
    throw new UsageError(`Cannot open the store "${store}": ${reasonOf(error)}.`, { cause: error });
  });
  if (!status.isFile()) throw new UsageError(`The store "${store}" is no file.`);
  if (status.size === 0) throw new UsageError(`The store "${store}" is empty: it is no store.`);
  return path;
}

/** A harness that runs nobody: for what is kept. @throws {UsageError} */
export async function openStore(path: string): Promise<Harness> {
  try {
    return await createHarness({ store: path, workers: { warm: 0 } });
  } catch (error) {
    throw error instanceof HarnessError ? new UsageError(error.message, { cause: error }) : error;
  }
}

/**
 * Do something with a store's sessions.
 * @throws {UsageError} when there is no store
 */
export async function withStore<T>(
  store: string,
  { surroundings }: Pick<Call, 'surroundings'>,
  work: (harness: Harness) => Promise<T>,
): Promise<T> {
  const harness = await openStore(await existingStore(store, surroundings.cwd));
  try {
    return await work(harness);
  } finally {
    await harness.dispose();
  }
}

/** A stored session, as far as its place is known. */
export interface StoredPlace {
  readonly id: SessionId;
  readonly parentSession?: SessionId;
}

/** All that are stored, by age; those that cannot be read are among them. */
export async function storedPlaces(
  { sessionPersistence }: Harness,
  signal: AbortSignal,
): Promise<readonly StoredPlace[]> {
  const damaged: (StoredPlace & { readonly createdAt: number })[] = [];
  const headers = await sessionPersistence.list(signal, (one) => void damaged.push(one));
  return [...headers, ...damaged].sort((one, other) => one.createdAt - other.createdAt);
}
