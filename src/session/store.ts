import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';

/** What one session adds in one transaction. */
export interface StoreAppend {
  readonly id: SessionId;
  /** The fence: an append with another epoch than the stored one is refused. */
  readonly epoch: number;
  /** Present exactly once in a session's life: it creates the row. */
  readonly header?: SessionHeader;
  /** Contiguous; the first seq is the stored length. May be empty only beside a header. */
  readonly events: readonly SessionEvent[];
  /**
   * Only beside a header, and a hint: the first `count` of `events` are the first `count` events
   * of session `id`, which this store holds, as far as they are stored by now. A store may copy
   * what it has of them; `events` is complete, so one that ignores this is right as well.
   * Contract: the caller holds session `id` by its own `acquire` or creation. A store that copies
   * checks so, or another owner may have put another session of that id in its place.
   */
  readonly inherits?: { readonly id: SessionId; readonly count: number };
}

/** A stored session as one consistent reading. */
export interface StoredSession {
  readonly header: SessionHeader;
  readonly events: readonly SessionEvent[];
}

/**
 * Where sessions are kept. A store knows nothing of agents: it keeps headers and events, hands
 * out epochs, and refuses whoever writes with an old one.
 *
 * Every method rejects with a `StoreError`; nothing is kept of a refused call. A read observes
 * `signal` and rejects with its reason.
 */
export interface SessionPersistence {
  /** One header per stored session, by `createdAt`, then id. */
  list(signal?: AbortSignal): Promise<readonly SessionHeader[]>;
  /** @throws {StoreError} `SESSION_NOT_FOUND`, `STORE_FORMAT_UNSUPPORTED`, `STORE_CORRUPT` */
  inspect(id: SessionId, signal?: AbortSignal): Promise<StoredSession>;
  /** The stored suffix from `seq` on; empty beyond the end. */
  readFrom(id: SessionId, seq: number, signal?: AbortSignal): Promise<readonly SessionEvent[]>;
  /**
   * As `list`, of all that descends from these sessions, `levels` deep (1: their children). These
   * themselves are not among them. Absent: `list` is asked.
   */
  listBelow?(
    roots: readonly SessionId[],
    levels: number,
    signal?: AbortSignal,
  ): Promise<readonly SessionHeader[]>;
  /**
   * Whether another living owner holds a stored session, so that `acquire` would be refused by
   * now. Absent: nobody else can.
   */
  isHeldElsewhere?(id: SessionId, signal?: AbortSignal): Promise<boolean>;
  /**
   * Become the owner of a stored session. The epoch grows by one, so a former owner can write no
   * more.
   * @throws {StoreError} `SESSION_OWNED_ELSEWHERE` while another living owner holds it.
   */
  acquire(id: SessionId): Promise<{ readonly epoch: number }>;
  /**
   * One transaction: all of it is committed when this resolves, or none of it ever.
   * @throws {StoreError} `STALE_EPOCH`, `STORE_FULL`, `STORE_READ_ONLY`, `STORE_IO`
   */
  append(batch: readonly StoreAppend[]): Promise<void>;
  /** Keep ownership for another lease. */
  renew(ids: readonly SessionId[]): Promise<void>;
  /** Give ownership up; the stored sessions stay. */
  release(ids: readonly SessionId[]): Promise<void>;
  /** Remove sessions and their events. */
  delete(ids: readonly SessionId[]): Promise<void>;
  /** Wait for what is being written, then let go of the file. Idempotent. */
  close(): Promise<void>;
}

/** The epoch that a session's first append carries. */
export const FIRST_EPOCH = 1;
