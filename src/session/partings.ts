/**
 * How sessions are let go of when nothing more is said in them. Whoever waits for that may give up
 * before the store has answered; then it goes on by itself, and what the store kept only after its
 * refusal was told is taken back before anybody can own the session. A store that fails at that
 * is tried again; a session of which it could not be taken back is not given back either.
 */
import type { SessionId } from '../../protocol/ids.ts';
import type { Clock, Timer } from '../base/clock.ts';
import type { Logger } from '../base/logger.ts';
import type { CommitQueue } from './commit-queue.ts';
import type { KeptSession } from './kept-session.ts';
import type { SessionPersistence } from './store.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { StoreError } from '../../protocol/errors.ts';
import { elapsed } from '../base/clock.ts';

/** Before the second try, and at most while the parting lasts; it doubles. */
const FIRST_PAUSE_MS = 50;
const LAST_PAUSE_MS = 1_000;
/** Between two tries after that. */
const OWED_PAUSE_MS = 5_000;

interface PartingsOptions {
  readonly store: SessionPersistence;
  readonly queue: CommitQueue;
  readonly clock: Clock;
  readonly logger: Logger;
  /** How long a parting tries again what its store fails at. */
  readonly patienceMs: number;
}

export class Partings {
  readonly #options: PartingsOptions;
  readonly #parting = new Map<SessionId, Promise<void>>();
  /** Still held: what they hold was refused, and it could not be taken back so far. */
  readonly #owed = new Map<SessionId, { readonly kept: KeptSession; timer?: Timer }>();
  #isClosing = false;

  constructor(options: PartingsOptions) {
    this.#options = options;
  }

  /**
   * @param why what its last write failed with, or that it was not answered
   * @throws {StoreError}
   */
  begin(kept: KeptSession, why?: unknown): Promise<void> {
    const { session, phase } = kept;
    kept.giveUp(why);
    this.#options.queue.remove(kept);
    return this.#track(session.id, this.#part(kept, phase !== 'held'));
  }

  /** Those of one id, or of all, are over. Never rejects. */
  async over(id?: SessionId): Promise<void> {
    await Promise.allSettled(id === undefined ? this.#parting.values() : [this.#parting.get(id)]);
  }

  /**
   * Nothing that was refused is left in this session, so that it may be owned again.
   * @throws {StoreError} it is, and what that could not be taken back for
   */
  async settle(id: SessionId): Promise<void> {
    await this.over(id);
    if (this.#owed.has(id)) await this.#track(id, this.#pay(id));
  }

  /**
   * The partings are over, and what is owed was tried once more: there is no later.
   * @throws {StoreError} naming those of which something refused stays
   */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.over();
    const ids = [...this.#owed.keys()];
    const paid = await Promise.allSettled(ids.map((id) => this.#track(id, this.#pay(id))));
    for (const { timer } of this.#owed.values()) timer?.cancel();
    const stay = ids.filter((_, index) => paid[index]?.status === 'rejected');
    if (stay.length === 0) return;
    const names = stay.map((id) => `\`${id}\``).join(', ');
    throw new StoreError(
      'STORE_IO',
      `What was refused could not be taken back, and runs when it is resumed: ${names}.`,
      { cause: (paid.find(({ status }) => status === 'rejected') as PromiseRejectedResult).reason },
    );
  }

  #track(id: SessionId, work: Promise<void>): Promise<void> {
    const parting = work.finally(() => {
      if (this.#parting.get(id) === parting) this.#parting.delete(id);
    });
    this.#parting.set(id, parting);
    return parting;
  }

  async #part(kept: KeptSession, mayBeWritten: boolean): Promise<void> {
    const { queue, store, clock, patienceMs } = this.#options;
    const { id } = kept.session;
    // A write of it may be in flight: the lease outlives it.
    if (mayBeWritten) await queue.settled();
    if (!kept.hasRow || kept.phase === 'lost') return;
    const until = elapsed(clock) + patienceMs;
    for (let pause = FIRST_PAUSE_MS; ; pause = Math.min(2 * pause, LAST_PAUSE_MS)) {
      try {
        await this.#takeBack(kept);
        break;
      } catch (error) {
        if (elapsed(clock) + pause < until) {
          await new Promise<void>((resume) => void clock.after(pause, resume, true));
          continue;
        }
        if (kept.isRefused) {
          this.#owe(kept, error);
          throw error;
        }
        // Nobody was told of a refusal: it is as after any last write that failed.
        await store.release([id]);
        throw error;
      }
    }
    await store.release([id]);
  }

  /** What was kept too late is gone, or the session is another's by now. @throws {StoreError} */
  async #takeBack(kept: KeptSession): Promise<void> {
    const { store } = this.#options;
    const late = kept.late();
    if (late === undefined) return;
    try {
      await (late === 'delete' ? store.delete([kept.session.id]) : store.append([late]));
    } catch (error) {
      if (!isAnothers(error)) throw error;
    }
  }

  #owe(kept: KeptSession, error: unknown): void {
    const { id } = kept.session;
    const owed = this.#owed.get(id) ?? { kept };
    if (!this.#owed.has(id)) {
      this.#options.logger.error(
        { sessions: [id], error: toErrorRecord(error) },
        'What was refused was kept, and could not be taken back: the session stays held.',
      );
    }
    this.#owed.set(id, owed);
    if (this.#isClosing) return;
    owed.timer = this.#options.clock.after(OWED_PAUSE_MS, () => {
      if (this.#owed.get(id) === owed) this.#track(id, this.#pay(id)).catch(() => {});
    });
  }

  /** @throws {StoreError} */
  async #pay(id: SessionId): Promise<void> {
    const owed = this.#owed.get(id);
    if (owed === undefined) return;
    owed.timer?.cancel();
    try {
      await this.#takeBack(owed.kept);
    } catch (error) {
      this.#owe(owed.kept, error);
      throw error;
    }
    this.#owed.delete(id);
    await this.#options.store.release([id]);
  }
}

/** Whoever has it now, or removed it, decides what becomes of what it holds. */
const isAnothers = (error: unknown): boolean =>
  error instanceof StoreError &&
  ['STALE_EPOCH', 'SESSION_NOT_FOUND', 'SESSION_OWNED_ELSEWHERE'].includes(error.code);
