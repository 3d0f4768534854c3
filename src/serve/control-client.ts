/** What a program holds of a harness that somebody serves: in this process, or in another one. */
import type { SessionEvent } from '../../protocol/session-events.ts';
import type {
  NotificationMap,
  NotificationName,
  OperationName,
  OperationParams,
  OperationResult,
  RowListing,
} from './operation-map.ts';
import type { RuntimeEvent } from './runtime-events.ts';

/** A tree as it is, then what happens in it. A snapshot in between takes the place of all before. */
export type TreeUpdate =
  | ({ readonly type: 'snapshot' } & RowListing)
  | { readonly type: 'event'; readonly event: RuntimeEvent };

/**
 * One connection. What it calls is done by the process at the other end, with the authority of
 * whoever may open its socket.
 */
export interface ControlClient extends AsyncDisposable {
  /** The process at the other end. */
  readonly pid: number;
  /**
   * @throws {HarnessError} (rejects) as the operation: its code and its message
   * @throws {ProtocolError} (rejects) `CONNECTION_CLOSED` when the connection ends before the answer
   */
  call<M extends OperationName>(
    method: M,
    params: OperationParams<M>,
    options?: { readonly signal?: AbortSignal },
  ): Promise<OperationResult<M>>;
  /** Be told. Returns the disposer. */
  on<N extends NotificationName>(
    name: N,
    listener: (params: NotificationMap[N]) => void,
  ): () => void;
  /**
   * The events of one session, as `sessions.follow`. Whoever reads slowly slows the connection.
   * Leaving a `for await` ends it.
   */
  follow(
    sessionId: string,
    options?: {
      readonly from?: number;
      readonly forever?: boolean;
      readonly signal?: AbortSignal;
    },
  ): AsyncIterableIterator<SessionEvent>;
  /** All sessions, or those below one; a reader that falls behind gets a new snapshot. */
  watch(options?: {
    readonly rootId?: string;
    readonly signal?: AbortSignal;
  }): AsyncIterableIterator<TreeUpdate>;
  /** Resolves when the connection has ended, whoever ended it. Never rejects. */
  readonly closed: Promise<void>;
  /** Idempotent. Everything that was asked for is let go of. */
  close(): Promise<void>;
}
