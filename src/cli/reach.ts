/** Where a session can be asked for: in the process that runs it, or here, as it is stored. */
import {
  connectControl,
  HarnessError,
  localControl,
  type ControlClient,
  type RowListing,
  type SessionRow,
} from '../index.ts';
import type { Call } from './call.ts';
import { Refused } from './exit-codes.ts';
import { findId } from './session-ids.ts';
import { existingStore, openStore, storedPlaces } from './store-file.ts';

/** The processes that run something on a store; none are what this one makes up for. */
export interface Reached extends AsyncDisposable {
  readonly path: string;
  /** At least one. */
  readonly clients: readonly ControlClient[];
  /** False: nobody else has the store open, and the one client is of this process. */
  readonly isRemote: boolean;
}

/** @throws {UsageError} when there is no store */
export async function reach(store: string, call: Call): Promise<Reached> {
  const path = await existingStore(store, call.surroundings.cwd);
  const clients = await processesOf(path, call);
  if (clients.length > 0) return reached(path, clients, true, async () => {});
  return reachStored(path);
}

/**
 * The processes that have a store open; with `sessionId`, the one in which that is live or nearest
 * to it. A person is told of those that do not answer. Whoever gets them closes them.
 */
export function processesOf(
  path: string,
  { streams, signal }: Call,
  sessionId?: string,
): Promise<readonly ControlClient[]> {
  return connectControl(path, {
    signal,
    ...(sessionId === undefined ? {} : { sessionId }),
    onSilent(pid) {
      const text = `Process ${pid} has this store open and does not answer: is it stopped?`;
      streams.stderr.write(`${text} What it does now is not known.\n`);
    },
  });
}

/** What is stored, whoever runs it. */
export async function reachStored(path: string): Promise<Reached> {
  const harness = await openStore(path);
  return reached(path, [await localControl(harness)], false, () => harness.dispose());
}

function reached(
  path: string,
  clients: readonly ControlClient[],
  isRemote: boolean,
  release: () => Promise<void>,
): Reached {
  return {
    path,
    clients,
    isRemote,
    async [Symbol.asyncDispose]() {
      await Promise.all(clients.map((client) => client.close()));
      await release();
    },
  };
}

/** All that each of them knows: what one runs, it knows best. */
export async function listAll(
  clients: readonly ControlClient[],
  signal: AbortSignal,
): Promise<RowListing> {
  const call = (client: ControlClient) => client.call('session/list', {}, { signal });
  return merged(await Promise.all(clients.map(call)));
}

function merged(listings: readonly RowListing[]): RowListing {
  const rows = new Map<string, SessionRow>();
  const diagnostics = new Map<string, RowListing['diagnostics'][number]>();
  for (const listing of listings) {
    for (const row of listing.rows) {
      if (row.live || !rows.has(row.id)) rows.set(row.id, row);
    }
    for (const one of listing.diagnostics) diagnostics.set(one.id, one);
  }
  for (const id of rows.keys()) diagnostics.delete(id);
  return { rows: [...rows.values()], diagnostics: [...diagnostics.values()] };
}

/** The ids of a store, whatever runs, and the one that is meant. @throws {UsageError} */
export async function findStored(path: string, part: string, signal: AbortSignal): Promise<string> {
  const harness = await openStore(path);
  try {
    const places = await storedPlaces(harness, signal);
    return findId(
      places.map(({ id }) => id),
      part,
    );
  } finally {
    await harness.dispose();
  }
}

/**
 * Ask the process that runs a session.
 * @throws {UsageError} when there is no such session
 * @throws {Refused} when nobody runs it
 */
export async function askOwner<T>(
  store: string,
  session: string,
  call: Call,
  ask: (client: ControlClient, sessionId: string) => Promise<T>,
): Promise<T> {
  const path = await existingStore(store, call.surroundings.cwd);
  const sessionId = await findStored(path, session, call.signal);
  const [owner] = await processesOf(path, call, sessionId);
  if (owner === undefined) {
    throw new Refused(`Nobody runs session ${sessionId} now, or can be reached by its store.`);
  }
  try {
    return await ask(owner, sessionId);
  } finally {
    await owner.close();
  }
}

/** The other end is gone: what was followed there is over. */
export const isGone = (error: unknown): boolean =>
  error instanceof HarnessError && error.code === 'CONNECTION_CLOSED';
