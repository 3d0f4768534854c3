/** A client over one connection. Owns its peer. */
import type { SessionEvent } from '../../protocol/session-events.ts';
import {
  ArgumentError,
  HarnessError,
  PROTOCOL_ERROR_CODES,
  ProtocolError,
  STORE_ERROR_CODES,
  StoreError,
  SUBAGENT_ERROR_CODES,
  SubagentError,
} from '../../protocol/errors.ts';
import type {
  ProtocolErrorCode,
  StoreErrorCode,
  SubagentErrorCode,
} from '../../protocol/errors.ts';
import { raceSignal } from '../base/deferred.ts';
import type { ControlClient, TreeUpdate } from './control-client.ts';
import { Incoming } from './incoming.ts';
import type {
  NotificationMap,
  NotificationName,
  OperationFailure,
  OperationName,
  OperationParams,
  OperationResult,
} from './operation-map.ts';
import { readingOf } from './reading.ts';
import { RpcPeer, RpcRefusal } from './rpc-peer.ts';
import type { RpcPeerOptions } from './rpc-peer.ts';

/** A page of a log, or all rows of a large store, is one line. */
const MAX_LINE_BYTES = 256 * 1_048_576;

type Listener = (params: never) => void;

/** Connects, and asks who is there. @throws {HarnessError} (rejects) when nobody answers */
export async function connectPeer(
  streams: Pick<RpcPeerOptions, 'input' | 'output'>,
  signal?: AbortSignal,
): Promise<ControlClient> {
  const client = new PeerClient(streams);
  try {
    client.pid = (await client.call('initialize', {}, signal && { signal })).pid;
    return client;
  } catch (error) {
    await client.close();
    throw error;
  }
}

class PeerClient implements ControlClient {
  pid = 0;
  readonly #peer: RpcPeer;
  readonly #listeners = new Map<string, Set<Listener>>();
  /** What is read, by the id under which it is told. */
  readonly #reading = new Map<string, Incoming<unknown>>();
  #full = 0;

  constructor(streams: Pick<RpcPeerOptions, 'input' | 'output'>) {
    this.#peer = new RpcPeer({
      ...streams,
      maxLineBytes: MAX_LINE_BYTES,
      onNotification: (name, params) => this.#told(name, params as object),
    });
    void this.#peer.closed.then(() => {
      for (const incoming of this.#reading.values()) incoming.fail(closed());
      this.#reading.clear();
    });
  }

  get closed(): Promise<void> {
    return this.#peer.closed;
  }

  async call<M extends OperationName>(
    method: M,
    params: OperationParams<M>,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<OperationResult<M>> {
    signal?.throwIfAborted();
    const { id, answer } = this.#peer.request(method, params);
    try {
      return (await raceSignal(answer, signal)) as OperationResult<M>;
    } catch (error) {
      this.#peer.forget(id);
      return rethrow(error);
    }
  }

  on<N extends NotificationName>(
    name: N,
    listener: (params: NotificationMap[N]) => void,
  ): () => void {
    const entry: Listener = (params) => listener(params);
    const set = this.#listeners.get(name) ?? new Set();
    this.#listeners.set(name, set.add(entry));
    return () => void set.delete(entry);
  }

  follow(
    sessionId: string,
    {
      signal,
      ...options
    }: { readonly from?: number; readonly forever?: boolean; readonly signal?: AbortSignal } = {},
  ): AsyncIterableIterator<SessionEvent> {
    return this.#read<SessionEvent, 'session/follow'>(
      'session/follow',
      { sessionId, ...options },
      signal,
      {
        idOf: ({ followId }) => followId,
        end: (followId) => this.call('session/unfollow', { followId }),
      },
    );
  }

  watch({ rootId, signal }: { readonly rootId?: string; readonly signal?: AbortSignal } = {}) {
    const params = rootId === undefined ? {} : { rootId };
    return this.#read<TreeUpdate, 'tree/watch'>('tree/watch', params, signal, {
      idOf: ({ watchId }) => watchId,
      end: (watchId) => this.call('tree/unwatch', { watchId }),
    });
  }

  async close(): Promise<void> {
    this.#peer.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #read<T, M extends OperationName>(
    method: M,
    params: OperationParams<M>,
    signal: AbortSignal | undefined,
    of: { idOf(result: OperationResult<M>): string; end(id: string): Promise<unknown> },
  ): AsyncIterableIterator<T, undefined> {
    const incoming = new Incoming<T>((isFull) => this.#flow(isFull));
    let id: string | undefined;
    let isLeft = false;
    // Its answer is not waited for: another reading may hold the connection up. It fails when the
    // connection is gone, and all of this with it.
    const endThere = (known: string): void => void of.end(known).catch(() => {});
    const begin = async (): Promise<void> => {
      const { answer } = this.#peer.request(method, params, (result) => {
        id = of.idOf(result as OperationResult<M>);
        if (isLeft) endThere(id);
        else this.#reading.set(id, incoming as Incoming<unknown>);
      });
      await answer.catch(rethrow);
    };
    const end = (): void => {
      isLeft = true;
      if (id !== undefined && this.#reading.delete(id)) endThere(id);
    };
    return readingOf(incoming, { begin, end, signal });
  }

  #told(name: string, params: object): void {
    const { followId, watchId } = params as { followId?: string; watchId?: string };
    const id = followId ?? watchId;
    if (id !== undefined) {
      // What is told of a reading comes after its answer; nobody reads any more of any other.
      const incoming = this.#reading.get(id);
      if (incoming !== undefined) deliver(incoming, name as NotificationName, params);
    }
    for (const listener of this.#listeners.get(name) ?? []) listener(params as never);
  }

  #flow(isFull: boolean): void {
    this.#full += isFull ? 1 : -1;
    this.#peer.pause(this.#full > 0);
  }
}

function deliver(incoming: Incoming<unknown>, name: NotificationName, params: object): void {
  switch (name) {
    case 'session.event':
      return incoming.push((params as NotificationMap['session.event']).event);
    case 'follow.end': {
      const { error } = params as NotificationMap['follow.end'];
      return error === undefined ? incoming.end() : incoming.fail(errorOf(error));
    }
    case 'tree.snapshot': {
      const { rows, diagnostics } = params as NotificationMap['tree.snapshot'];
      return incoming.push({ type: 'snapshot', rows, diagnostics });
    }
    case 'tree.event': {
      const { event } = params as NotificationMap['tree.event'];
      return incoming.push({ type: 'event', event });
    }
    // A snapshot follows, which says it all.
    default:
  }
}

/** As the other end threw it: its code, its words, and the class that has such codes. */
function errorOf({ code, message }: OperationFailure): HarnessError {
  const isOf = (codes: readonly string[]): boolean => codes.includes(code);
  if (code === 'INVALID_ARGUMENT') return new ArgumentError(message);
  if (isOf(STORE_ERROR_CODES)) return new StoreError(code as StoreErrorCode, message);
  if (isOf(SUBAGENT_ERROR_CODES)) return new SubagentError(code as SubagentErrorCode, message);
  if (isOf(PROTOCOL_ERROR_CODES)) return new ProtocolError(code as ProtocolErrorCode, message);
  return new HarnessError(code, message);
}

function rethrow(error: unknown): never {
  throw error instanceof RpcRefusal ? revived(error) : error;
}

function revived({ error: { code, message, data } }: RpcRefusal): HarnessError {
  const told = data as Partial<OperationFailure> | undefined;
  if (typeof told?.code === 'string') return errorOf({ message, ...told } as OperationFailure);
  return new ProtocolError('PROTOCOL_VIOLATION', `The other end refused (${code}): ${message}`);
}

const closed = (): ProtocolError =>
  new ProtocolError('CONNECTION_CLOSED', 'The connection to the harness was closed.');
