import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { SessionPersistence, StoreAppend, StoredSession } from './store.ts';
import { appendProblem, notFound } from './store-rules.ts';

interface Kept {
  readonly header: SessionHeader;
  readonly events: SessionEvent[];
  epoch: number;
}

/**
 * Sessions in memory, for tests and runs that need not outlive the process. Closing it lets go
 * of nothing: the same store can be given to a later harness, as a file could.
 *
 * All its users are one owner, so `acquire` never refuses; the epoch still fences off whoever
 * held the session before.
 */
export class MemoryStore implements SessionPersistence {
  readonly #sessions = new Map<SessionId, Kept>();

  async list(signal?: AbortSignal): Promise<readonly SessionHeader[]> {
    signal?.throwIfAborted();
    const headers = [...this.#sessions.values()].map(({ header }) => header);
    return headers.sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  }

  async inspect(id: SessionId, signal?: AbortSignal): Promise<StoredSession> {
    signal?.throwIfAborted();
    const { header, events } = this.#find(id);
    return { header, events: [...events] };
  }

  async readFrom(
    id: SessionId,
    seq: number,
    signal?: AbortSignal,
  ): Promise<readonly SessionEvent[]> {
    signal?.throwIfAborted();
    return this.#find(id).events.slice(seq);
  }

  async acquire(id: SessionId): Promise<{ readonly epoch: number }> {
    const kept = this.#find(id);
    return { epoch: ++kept.epoch };
  }

  async append(batch: readonly StoreAppend[]): Promise<void> {
    // All are checked before any is taken: one refusal refuses the batch.
    for (const entry of batch) {
      const kept = this.#sessions.get(entry.id);
      const problem = appendProblem(entry, kept && { ...kept, length: kept.events.length });
      if (problem !== undefined) throw problem;
    }
    for (const { id, epoch, header, events } of batch) {
      if (header !== undefined) this.#sessions.set(id, { header, epoch, events: [...events] });
      else for (const event of events) this.#sessions.get(id)?.events.push(event);
    }
  }

  async renew(ids: readonly SessionId[]): Promise<void> {
    for (const id of ids) this.#find(id);
  }

  async release(): Promise<void> {}

  async delete(ids: readonly SessionId[]): Promise<void> {
    for (const id of ids) this.#sessions.delete(id);
  }

  async close(): Promise<void> {}

  #find(id: SessionId): Kept {
    const kept = this.#sessions.get(id);
    if (kept === undefined) throw notFound(id);
    return kept;
  }
}
