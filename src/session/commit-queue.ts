/**
 * Group commit. What all sessions appended in one tick goes to the store as one batch; one write
 * is in flight at a time, and what comes meanwhile forms the next. A failed write is kept in
 * order and made again with the next event or flush; a session that alone is refused is written
 * apart from then on, so that its neighbours do not fail with it. A batch of very many sessions is
 * written in parts, so that other work gets its turn.
 */
import { setImmediate as nextTick } from 'node:timers/promises';
import type { Clock, Timer } from '../base/clock.ts';
import type { Logger } from '../base/logger.ts';
import type { Job, KeptSession } from './kept-session.ts';
import type { SessionPersistence } from './store.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { StoreError } from '../../protocol/errors.ts';

/**
 * What `session.committed()` stands for.
 * - `full`: the store has put it on the disk.
 * - `process`: the store has taken it; what it may still lose is the store's own setting.
 * - `batched`: nothing; it resolves at once, and writes are gathered for up to 200 ms. What was
 *   acknowledged in that window is lost when the process ends without closing.
 */
export type Durability = 'full' | 'process' | 'batched';

/** How long `batched` gathers events before it writes them. */
export const BATCH_WINDOW_MS = 200;
/** Sessions in one write. */
const AT_ONCE = 100;

interface QueueOptions {
  readonly store: SessionPersistence;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Without barriers: `committed()` does not wait, and writes are gathered for longer. */
  readonly isBatched: boolean;
}

export class CommitQueue {
  readonly isBatched: boolean;
  readonly #store: SessionPersistence;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #unwritten = new Set<KeptSession>();
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;
  #isWanted = false;

  constructor(options: QueueOptions) {
    this.isBatched = options.isBatched;
    this.#store = options.store;
    this.#clock = options.clock;
    this.#logger = options.logger;
  }

  /** Something of this session is to be written, with everything else of this tick. */
  add(kept: KeptSession): void {
    this.#unwritten.add(kept);
    this.#isWanted = true;
    if (this.#writing === undefined && this.#timer === undefined) this.#timer = this.#later();
  }

  /**
   * Write what this session holds now, and whatever else waits.
   * @throws {StoreError} of that write, or the one that ended the session's keeping.
   */
  async flush(kept: KeptSession): Promise<void> {
    // A write in flight may hold an older part; if it fails, ours makes it again.
    while (this.#writing !== undefined) await this.#writing;
    if (kept.phase === 'kept' && !kept.isStored) this.#unwritten.add(kept);
    const done = kept.isHeldBack ? undefined : kept.wait();
    this.#start();
    await done;
  }

  /** The write that is in flight is over. Never rejects. */
  async settled(): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
  }

  remove(kept: KeptSession): void {
    this.#unwritten.delete(kept);
  }

  #later(): Timer {
    const run = (): void => {
      this.#timer = undefined;
      this.#start();
    };
    if (this.isBatched) return this.#clock.after(BATCH_WINDOW_MS, run);
    // After everything that arrived with this tick; it keeps the process until it is written.
    const immediate = setImmediate(run);
    return { cancel: () => clearImmediate(immediate) };
  }

  #start(): void {
    if (this.#writing !== undefined) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#isWanted = false;
    const jobs = [...this.#unwritten].map((kept) => kept.job()).filter((job) => job !== undefined);
    this.#unwritten.clear();
    if (jobs.length === 0) return;
    // Begins in a microtask, so that `#writing` is set before the write can be over.
    this.#writing = Promise.resolve().then(() => this.#run(jobs));
  }

  async #run(jobs: readonly Job[]): Promise<void> {
    const together = jobs.filter((job) => !job.kept.isApart);
    for (let from = 0; from < together.length; from += AT_ONCE) {
      if (from > 0) await nextTick();
      await this.#write(together.slice(from, from + AT_ONCE));
    }
    for (const job of jobs) if (!together.includes(job)) await this.#write([job]);
    this.#writing = undefined;
    if (this.#isWanted) this.#timer ??= this.#later();
  }

  async #write(jobs: readonly Job[]): Promise<void> {
    try {
      await this.#store.append(jobs.map(({ append }) => append));
    } catch (thrown) {
      const error = asStoreError(thrown);
      if (jobs.length > 1 && isOfOneSession(error)) {
        for (const job of jobs) {
          await this.#write([job]);
        }
        return;
      }
      let isNews = false;
      for (const { kept, upTo } of jobs) {
        kept.isApart = isOfOneSession(error);
        isNews = kept.failed(upTo, error) || isNews;
        // A store that failed may do so no more: the next write of whichever session tries this
        // one too. What is wrong with the session itself waits for its own next event.
        if (kept.phase === 'kept' && error.code !== 'STORE_CORRUPT') this.#unwritten.add(kept);
      }
      if (isNews) {
        const sessions = jobs.map(({ append }) => append.id);
        this.#logger.warn({ sessions, error: toErrorRecord(error) }, 'Sessions were not written.');
      }
      return;
    }
    for (const job of jobs) job.kept.wrote(job);
  }
}

/** Whether writing the sessions of a refused batch one by one could save the others. */
function isOfOneSession({ code }: StoreError): boolean {
  return code !== 'STORE_IO' && code !== 'STORE_READ_ONLY';
}

function asStoreError(thrown: unknown): StoreError {
  if (thrown instanceof StoreError) return thrown;
  return new StoreError('STORE_CORRUPT', 'The store failed in a way that it does not name.', {
    cause: thrown,
  });
}

/** What an end is told whose store is silent. */
export const unanswered = (ms: number): StoreError =>
  new StoreError(
    'STORE_IO',
    `The store did not answer within ${ms} ms of the end that waits for it.`,
  );
