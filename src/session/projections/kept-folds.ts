import type { Session } from '../session.ts';
import type { Checkpoint, SessionPersistence } from '../store.ts';
import type { SessionProjections } from './registry.ts';

/** Between the projections and the store: what the one folds of a session, the other keeps. */
export class KeptFolds {
  readonly #store: SessionPersistence;
  readonly #projections: SessionProjections | undefined;

  constructor(store: SessionPersistence, projections: SessionProjections | undefined) {
    this.#store = store;
    this.#projections = projections;
  }

  /** How to make a checkpoint of this session; `undefined` where none would be kept. */
  checkpointOf(session: Session): (() => Checkpoint) | undefined {
    const projections = this.#store.checkpoints && this.#projections;
    return projections && (() => projections.checkpoint(session));
  }

  /**
   * Go on folding a loaded session from what the store kept. It is a short cut: what cannot be
   * read, or used, is folded from the log. Returns whether all of it could be used.
   */
  async resume(session: Session, signal: AbortSignal | undefined): Promise<boolean> {
    if (this.#projections === undefined) return false;
    try {
      const kept = await this.#store.checkpoints?.([session.id], signal);
      const checkpoint = kept?.get(session.id);
      return checkpoint !== undefined && this.#projections.resume(session, checkpoint);
    } catch {
      // Rejected, thrown, or no checkpoint at all: a store may be anybody's.
      return false;
    }
  }

  /** The session has left; nothing is kept of it in memory. */
  leave(session: Session): void {
    this.#projections?.leave(session);
  }
}
