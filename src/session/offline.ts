/** What is done with sessions that are not live: how their ids are held, and what is below them. */
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { Session } from './session.ts';
import type { SessionPersistence } from './store.ts';

/** The sessions of one process, for work on stored ones. */
export interface Offline {
  readonly store: SessionPersistence;
  /** The live ones. */
  list(): readonly Session[];
  get(id: SessionId): Session | undefined;
  /**
   * Waits until a former life of this id has left. From then on nobody here makes or loads a
   * session of it, until the returned function is called.
   * @throws {ArgumentError} when the session is live, or somebody loads it.
   */
  reserve(id: SessionId, signal: AbortSignal | undefined): Promise<() => void>;
  isStored(id: SessionId): Promise<boolean>;
  /** It is no more: whoever reads it is told. */
  removed(id: SessionId): void;
  /** Be told of what is removed from now on. Returns how to end that. */
  onRemoved(listener: (id: SessionId) => void): () => void;
}

/** A session and all that descends from it among these, parents first. */
export function withBelow(
  root: SessionId,
  headers: readonly Pick<SessionHeader, 'id' | 'parentSession'>[],
): readonly SessionId[] {
  const children = new Map<SessionId, SessionId[]>();
  for (const { id, parentSession } of headers) {
    if (parentSession === undefined) continue;
    const siblings = children.get(parentSession);
    if (siblings === undefined) children.set(parentSession, [id]);
    else siblings.push(id);
  }
  // A set goes on with what is added while it is walked, and takes no circle twice.
  const found = new Set([root]);
  for (const id of found) for (const child of children.get(id) ?? []) found.add(child);
  return [...found];
}
