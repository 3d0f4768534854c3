/** How a program finds and reaches harnesses that are served: those of a store, and its own. */
import { PassThrough } from 'node:stream';
import type { Harness } from '../harness.ts';
import type { ControlClient } from './control-client.ts';
import { connectPeer } from './peer-client.ts';
import { serveConnection } from './served-connection.ts';
import { connectTo, socketsOf } from './socket-files.ts';

/** How long a process has to say who it is: one that is stopped never does. */
const ANSWER_MS = 5_000;

/**
 * The processes that have a store open and can be reached. With `sessionId`, only that in which the
 * session is live, or else the nearest one above it that is: none or one. Whoever gets them closes
 * them. The sockets of dead processes are removed.
 *
 * @throws {StoreError} (rejects) when there is no such store
 */
export async function connectControl(
  store: string,
  options: { readonly sessionId?: string; readonly signal?: AbortSignal } = {},
): Promise<readonly ControlClient[]> {
  const { sessionId, signal } = options;
  const found = await Promise.all(
    (await socketsOf(store)).map(({ path }) => clientAt(path, signal).catch(() => undefined)),
  );
  const clients = found.filter((client) => client !== undefined);
  try {
    signal?.throwIfAborted();
    return sessionId === undefined ? clients : await ownersOf(sessionId, clients);
  } catch (error) {
    await Promise.all(clients.map((client) => client.close()));
    throw error;
  }
}

/** The same for a harness of this process: what is asked of it goes the same way. */
export async function localControl(harness: Harness): Promise<ControlClient> {
  const [there, back] = [new PassThrough(), new PassThrough()];
  serveConnection({ harness }, { input: there, output: back });
  return connectPeer({ input: back, output: there });
}

async function clientAt(
  path: string,
  signal: AbortSignal | undefined,
): Promise<ControlClient | undefined> {
  const socket = await connectTo(path);
  if (socket === undefined) return undefined;
  const timer = setTimeout(() => socket.destroy(), ANSWER_MS);
  try {
    return await connectPeer({ input: socket, output: socket }, signal);
  } finally {
    clearTimeout(timer);
  }
}

/** Live beats a live root; a process that knows nothing of it has nothing to do with it. */
async function ownersOf(
  sessionId: string,
  clients: readonly ControlClient[],
): Promise<readonly ControlClient[]> {
  const places = await Promise.all(
    clients.map((client) => client.call('session/find', { sessionId }).catch(() => undefined)),
  );
  const at = (is: (place: NonNullable<(typeof places)[number]>) => boolean): number =>
    places.findIndex((place) => place !== undefined && is(place));
  const index = [at(({ live }) => live), at(({ isRootLive }) => isRootLive)].find((n) => n >= 0);
  const owner = index === undefined ? undefined : clients[index];
  await Promise.all(clients.filter((one) => one !== owner).map((one) => one.close()));
  return owner === undefined ? [] : [owner];
}
