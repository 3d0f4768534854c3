import { randomInt } from 'node:crypto';
import type { StoreError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { Json } from '../../protocol/json.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';

/**
 * Told of a session, and the epoch it was held by; the error is a `STALE_EPOCH`.
 * @inline
 */
export type OnLost = (id: SessionId, epoch: number, error: StoreError) => void;

/** What one session adds in one transaction. */
export interface StoreAppend {
  readonly id: SessionId;
  /**
   * The fence: an append with another epoch than the stored one, or by another than the owner, is
   * refused. Beside a header: a fresh one, see `firstEpoch`.
   */
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
  /**
   * What projections had folded of the log, up to at most the last of `events`; it takes the place
   * of an earlier one. Kept by the same transaction as the events, so it never knows more than the
   * log. A store may ignore it.
   */
  readonly checkpoint?: Checkpoint;
}

/** What projections folded of one log. Disposable: whoever has the log can make it again. */
export interface Checkpoint {
  /** The last event that was folded; -1 when there was none. */
  readonly seq: number;
  /** The state of each projection, by its key, with the version of the projection. */
  readonly rows: Readonly<Record<string, { readonly ver: number; readonly val: Json }>>;
}

/** A stored session with its events as they are kept: one packed body each, from number 0 on. */
export interface PackedSession {
  readonly header: SessionHeader;
  readonly bodies: readonly Uint8Array[];
}

/**
 * What listings tell a stored session by: its place in the tree, and what was folded of its log.
 * Of the moment it was created, so a header that was damaged since is not noticed.
 */
export interface SessionOutline extends Pick<
  SessionHeader,
  'id' | 'createdAt' | 'parentSession' | 'origin' | 'seedLength'
> {
  /** The last one, if it can be read and is of this log. */
  readonly checkpoint?: Checkpoint;
}

/** A stored session whose header cannot be read: what is known of it all the same. */
export interface DamagedSession {
  readonly id: SessionId;
  readonly createdAt: number;
  readonly parentSession?: SessionId;
  /** `STORE_CORRUPT` or `STORE_FORMAT_UNSUPPORTED`; what `inspect` of it rejects with. */
  readonly error: StoreError;
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
 * Every method rejects with a `StoreError`; nothing is kept of a refused call, and the store goes
 * on when the cause is over. A read observes `signal` and rejects with its reason.
 */
export interface SessionPersistence {
  /** The file that all is kept in, as an absolute path. Absent: there is no such file. */
  readonly file?: string | undefined;
  /**
   * One header per stored session, by `createdAt`, then id. A session that is made or deleted
   * meanwhile may be there or not. One whose header cannot be read hides no other: it is left
   * out, and told to `onDamaged`, in no order.
   */
  list(
    signal?: AbortSignal,
    onDamaged?: (session: DamagedSession) => void,
  ): Promise<readonly SessionHeader[]>;
  /** @throws {StoreError} `SESSION_NOT_FOUND`, `STORE_FORMAT_UNSUPPORTED`, `STORE_CORRUPT` */
  inspect(id: SessionId, signal?: AbortSignal): Promise<StoredSession>;
  /** The stored suffix from `seq` on, of at most `limit` events; empty beyond the end. */
  readFrom(
    id: SessionId,
    seq: number,
    signal?: AbortSignal,
    limit?: number,
  ): Promise<readonly SessionEvent[]>;
  /**
   * As `list`, of all that descends from these sessions, `levels` deep (1: their children;
   * `Infinity`: all). These themselves are not among them, even in a circle of parents. What is
   * below a damaged session is found. Absent: `list` is asked.
   */
  listBelow?(
    roots: readonly SessionId[],
    levels: number,
    signal?: AbortSignal,
    onDamaged?: (session: DamagedSession) => void,
  ): Promise<readonly SessionHeader[]>;
  /**
   * As `listBelow`, without reading a header, and with the checkpoints: one reading of both.
   * Absent: `listBelow` and `checkpoints` are asked.
   */
  outlineBelow?(
    roots: readonly SessionId[],
    levels: number,
    signal?: AbortSignal,
    onDamaged?: (session: DamagedSession) => void,
  ): Promise<readonly SessionOutline[]>;
  /**
   * The last checkpoint of each of these that has one. One that cannot be read is as none.
   * Absent: none is kept.
   */
  checkpoints?(
    ids: readonly SessionId[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<SessionId, Checkpoint>>;
  /** The header that `inspect` gives, without its log. Absent: `inspect` is asked. */
  headerOf?(id: SessionId, signal?: AbortSignal): Promise<SessionHeader>;
  /** As `inspect`, for whoever unpacks the events elsewhere. Absent: `inspect` is asked. */
  inspectPacked?(id: SessionId, signal?: AbortSignal): Promise<PackedSession>;
  /**
   * Give the space of what was deleted back to the system, in small steps with time for others in
   * between. Only the first time, for a file that an earlier version made, is it one long step.
   * Absent: nothing to give back.
   */
  vacuum?(signal?: AbortSignal): Promise<void>;
  /**
   * Whether another living owner holds a stored session, so that `acquire` would be refused by
   * now. Absent: nobody else can.
   */
  isHeldElsewhere?(id: SessionId, signal?: AbortSignal): Promise<boolean>;
  /**
   * Become the owner of a stored session. The epoch grows by one, so a former owner can write no
   * more.
   * @throws {StoreError} `SESSION_OWNED_ELSEWHERE` while another living owner holds it; it names
   *   that one.
   */
  acquire(id: SessionId): Promise<{ readonly epoch: number }>;
  /**
   * One transaction: all of it is committed when this resolves, or none of it ever.
   * @throws {StoreError} `STALE_EPOCH`, `STORE_FULL`, `STORE_READ_ONLY`, `STORE_IO`
   */
  append(batch: readonly StoreAppend[]): Promise<void>;
  /** Keep ownership for another lease. */
  renew(ids: readonly SessionId[]): Promise<void>;
  /**
   * Give ownership up; the stored sessions stay. What cannot be given back now is renewed no more,
   * and given back as soon as it can be.
   */
  release(ids: readonly SessionId[]): Promise<void>;
  /**
   * Be told when a renewal by the store's own timer finds that a session is another owner's.
   * Returns the idempotent disposer. Absent: that is found out by the next append.
   */
  onLost?(listener: OnLost): () => void;
  /** Remove sessions and their events. */
  delete(ids: readonly SessionId[]): Promise<void>;
  /** Wait for what is being written, then let go of the file. Idempotent. */
  close(): Promise<void>;
}

/** The least epoch that a session's first append can carry. */
export const FIRST_EPOCH = 1;

/**
 * An epoch for a session's first append. Not the same for all: a session that is removed and made
 * again under its id has epochs that its former owners never had.
 */
export function firstEpoch(): number {
  return randomInt(FIRST_EPOCH, 2 ** 47);
}
