import type { SessionId } from '../../protocol/ids.ts';
import type { CommitQueue } from './commit-queue.ts';
import type { KeptSession } from './kept-session.ts';
import type { SessionPersistence } from './store.ts';

/**
 * How sessions are let go of when nothing more is said in them. Whoever waits for that may give up
 * before the store has answered; then it goes on by itself, and what the store kept only after its
 * refusal was told is taken back before anybody can own the session.
 */
export class Partings {
  readonly #store: SessionPersistence;
  readonly #queue: CommitQueue;
  readonly #parting = new Map<SessionId, Promise<void>>();

  constructor(store: SessionPersistence, queue: CommitQueue) {
    this.#store = store;
    this.#queue = queue;
  }

  /**
   * @param why what its last write failed with, or that it was not answered
   * @throws {StoreError}
   */
  begin(kept: KeptSession, why?: unknown): Promise<void> {
    const { session, phase } = kept;
    const { id } = session;
    kept.giveUp(why);
    this.#queue.remove(kept);
    const parting = this.#part(kept, phase !== 'held').finally(() => {
      if (this.#parting.get(id) === parting) this.#parting.delete(id);
    });
    this.#parting.set(id, parting);
    return parting;
  }

  /** Those of one id, or of all, are over. Never rejects. */
  async over(id?: SessionId): Promise<void> {
    await Promise.allSettled(id === undefined ? this.#parting.values() : [this.#parting.get(id)]);
  }

  async #part(kept: KeptSession, mayBeWritten: boolean): Promise<void> {
    const { id } = kept.session;
    // A write of it may be in flight: the lease outlives it.
    if (mayBeWritten) await this.#queue.settled();
    if (!kept.hasRow || kept.phase === 'lost') return;
    const late = kept.late();
    try {
      if (late === 'delete') await this.#store.delete([id]);
      else if (late !== undefined) await this.#store.append([late]);
    } finally {
      await this.#store.release([id]);
    }
  }
}
