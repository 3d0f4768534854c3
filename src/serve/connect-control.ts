/** How a program finds and reaches harnesses that are served: those of a store, and its own. */
import { PassThrough } from 'node:stream';
import type { Clock } from '../base/clock.ts';
import { systemClock } from '../base/clock.ts';
import { joinSignals } from '../base/deferred.ts';
import type { Harness } from '../harness.ts';
import type { ControlClient } from './control-client.ts';
import { connectPeer } from './peer-client.ts';
import { serveConnection } from './served-connection.ts';
import { connectTo, socketsOf } from './socket-files.ts';
import type { SocketFile } from './socket-files.ts';

/** How long processes have to say who they are and what they run: one that is stopped never does. */
const ANSWER_MS = 5_000;

/** Which of the processes of a store are wanted, and who is told of those that stay silent. */
export interface ConnectOptions {
  /** Only the process in which this session is live, or else the nearest one above it that is. */
  readonly sessionId?: string;
  readonly signal?: AbortSignal;
  /**
   * Told of each process that has the store open and did not answer within 5 s, as one that is
   * stopped does not: it may run what nobody else knows of. Before this resolves.
   */
  readonly onSilent?: (pid: number) => void;
  /** @internal */
  readonly clock?: Clock;
}

/**
 * The processes that have a store open and can be reached. With `sessionId` none or one of them.
 * Whoever gets them closes them. All in all they have 5 s to answer; `onSilent` is told who did
 * not. The sockets of dead processes are removed.
 *
 * @throws {StoreError} (rejects) when there is no such store
 */
export async function connectControl(
  store: string,
  options: ConnectOptions = {},
): Promise<readonly ControlClient[]> {
  const { sessionId, signal, onSilent, clock = systemClock } = options;
  const files = await socketsOf(store);
  const late = new AbortController();
  const timer = clock.after(ANSWER_MS, () => late.abort(), true);
  const { signal: inTime, release } = joinSignals([signal, late.signal]);
  const silent = new Set<number>();
  const answerOf: AnswerOf = async (pid, asking) => {
    try {
      return await asking(inTime);
    } catch (error) {
      // Its system lets nobody wait for it any more: as many do already as may.
      const isFull = (error as NodeJS.ErrnoException).code === 'EAGAIN';
      if (late.signal.aborted || isFull) silent.add(pid);
      return undefined;
    }
  };
  const clients: ControlClient[] = [];
  try {
    const asked = files.map((file) => answerOf(file.pid, (ended) => clientAt(file, ended)));
    clients.push(...(await Promise.all(asked)).filter((client) => client !== undefined));
    signal?.throwIfAborted();
    if (sessionId === undefined) return clients;
    const owners = await ownersOf(sessionId, clients, answerOf);
    signal?.throwIfAborted();
    return owners;
  } catch (error) {
    await Promise.all(clients.map((client) => client.close()));
    throw error;
  } finally {
    timer.cancel();
    release();
    if (signal?.aborted !== true) for (const pid of silent) onSilent?.(pid);
  }
}

/** `undefined` when it does not answer, or not in time. */
type AnswerOf = <T>(
  pid: number,
  asking: (ended: AbortSignal) => Promise<T>,
) => Promise<T | undefined>;

/** The same for a harness of this process: what is asked of it goes the same way. */
export async function localControl(harness: Harness): Promise<ControlClient> {
  const [there, back] = [new PassThrough(), new PassThrough()];
  serveConnection({ harness }, { input: there, output: back });
  return connectPeer({ input: back, output: there });
}

async function clientAt(file: SocketFile, ended: AbortSignal): Promise<ControlClient | undefined> {
  const socket = await connectTo(file);
  return socket && connectPeer({ input: socket, output: socket }, ended);
}

/** Live beats a live root; a process that knows nothing of it has nothing to do with it. */
async function ownersOf(
  sessionId: string,
  clients: readonly ControlClient[],
  answerOf: AnswerOf,
): Promise<readonly ControlClient[]> {
  const places = await Promise.all(
    clients.map((client) =>
      answerOf(client.pid, (signal) => client.call('session/find', { sessionId }, { signal })),
    ),
  );
  const at = (is: (place: NonNullable<(typeof places)[number]>) => boolean): number =>
    places.findIndex((place) => place !== undefined && is(place));
  const index = [at(({ live }) => live), at(({ isRootLive }) => isRootLive)].find((n) => n >= 0);
  const owner = index === undefined ? undefined : clients[index];
  await Promise.all(clients.filter((one) => one !== owner).map((one) => one.close()));
  return owner === undefined ? [] : [owner];
}
