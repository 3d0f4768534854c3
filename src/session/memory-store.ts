import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type {
  Checkpoint,
  PackedSession,
  SessionPersistence,
  StoreAppend,
  StoredSession,
} from './store.ts';
import { encodeEntry } from './event-codec.ts';
import { appendProblem, byAge, notFound } from './store-rules.ts';

interface Kept {
  readonly header: SessionHeader;
  readonly events: SessionEvent[];
  epoch: number;
  checkpoint?: Checkpoint;
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
    return headers.sort(byAge);
  }

  async listBelow(
    roots: readonly SessionId[],
    levels: number,
    signal?: AbortSignal,
  ): Promise<readonly SessionHeader[]> {
    const headers = await this.list(signal);
    const children = new Map<SessionId, SessionHeader[]>();
    for (const header of headers) {
      const { parentSession } = header;
      if (parentSession === undefined) continue;
      const siblings = children.get(parentSession);
      if (siblings === undefined) children.set(parentSession, [header]);
      else siblings.push(header);
    }
    const seen = new Set(roots);
    const found: SessionHeader[] = [];
    let parents = [...seen];
    for (let level = 0; level < levels && parents.length > 0; level++) {
      const below = parents.flatMap((id) => children.get(id) ?? []);
      const fresh = below.filter(({ id }) => !seen.has(id));
      for (const { id } of fresh) seen.add(id);
      found.push(...fresh);
      parents = fresh.map(({ id }) => id);
    }
    return found.sort(byAge);
  }

  async checkpoints(
    ids: readonly SessionId[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<SessionId, Checkpoint>> {
    signal?.throwIfAborted();
    const found = new Map<SessionId, Checkpoint>();
    for (const id of ids) {
      const checkpoint = this.#sessions.get(id)?.checkpoint;
      if (checkpoint !== undefined) found.set(id, checkpoint);
    }
    return found;
  }

  async inspect(id: SessionId, signal?: AbortSignal): Promise<StoredSession> {
    signal?.throwIfAborted();
    const { header, events } = this.#find(id);
    return { header, events: [...events] };
  }

  async headerOf(id: SessionId, signal?: AbortSignal): Promise<SessionHeader> {
    signal?.throwIfAborted();
    return this.#find(id).header;
  }

  async inspectPacked(id: SessionId, signal?: AbortSignal): Promise<PackedSession> {
    signal?.throwIfAborted();
    const { header, events } = this.#find(id);
    return { header, bodies: encodeEntry({ id, epoch: 0, events }).bodies };
  }

  async readFrom(
    id: SessionId,
    seq: number,
    signal?: AbortSignal,
    limit = Infinity,
  ): Promise<readonly SessionEvent[]> {
    signal?.throwIfAborted();
    return this.#find(id).events.slice(seq, seq + limit);
  }

  async acquire(id: SessionId): Promise<{ readonly epoch: number }> {
    const kept = this.#find(id);
    return { epoch: ++kept.epoch };
  }

  async append(batch: readonly StoreAppend[]): Promise<void> {
    // All are checked before any is taken: one refusal refuses the batch.
    for (const entry of batch) {
      const kept = this.#sessions.get(entry.id);
      const problem = appendProblem(
        entry,
        kept && { ...kept, length: kept.events.length, isOurs: true },
      );
      if (problem !== undefined) throw problem;
    }
    for (const { id, epoch, header, events, checkpoint } of batch) {
      if (header !== undefined) this.#sessions.set(id, { header, epoch, events: [] });
      const kept = this.#find(id);
      for (const event of events) kept.events.push(event);
      if (checkpoint !== undefined) kept.checkpoint = structuredClone(checkpoint);
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
