/**
 * Logs on their way to a thread that folds. Most logs are small, and a message costs more than
 * the fold of one: what comes while the thread is busy goes to it together. Whatever ends the
 * thread is the failure of the one log that does so by itself.
 */
import type { Offload } from '../../base/offload.ts';
import type { FoldJob, FoldReply } from './cold-fold.ts';
import { WorkerError } from '../../../protocol/errors.ts';
import type { PackedLog } from './packed-log.ts';
import { joinLogs } from './packed-log.ts';

/** A log as the store gave it, and what to fold it with. */
export type FoldOrder = Omit<FoldJob, 'log'> & { readonly bodies: readonly Uint8Array[] };

/** Logs in one message. */
const TOGETHER = 64;

interface Waiting {
  readonly order: FoldOrder;
  readonly signal: AbortSignal;
  resolve(reply: FoldReply): void;
  reject(error: unknown): void;
}

export class FoldBatches {
  readonly #offload: Offload;
  #waiting: Waiting[] = [];
  #isSending = false;

  constructor(offload: Offload) {
    this.#offload = offload;
  }

  /**
   * With others. An abort ends only this waiting; the thread goes on for the others.
   * @throws the signal's own reason
   * @throws {WorkerError} as `Offload.run`
   */
  fold(order: FoldOrder, signal: AbortSignal): Promise<FoldReply> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ order, signal, resolve, reject });
      if (!this.#isSending) void this.#sendAll();
    });
  }

  /** By itself, at once: for a log that is large. @throws as `fold` */
  async foldAlone(order: FoldOrder, signal: AbortSignal): Promise<FoldReply> {
    const [reply] = await this.#run([order], signal);
    return reply as FoldReply;
  }

  /** Never rejects. */
  async #sendAll(): Promise<void> {
    this.#isSending = true;
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, TOGETHER).filter(({ signal, reject }) => {
        if (signal.aborted) reject(signal.reason);
        return !signal.aborted;
      });
      if (batch.length > 0) await this.#send(batch);
    }
    this.#isSending = false;
  }

  async #send(batch: readonly Waiting[]): Promise<void> {
    const stop = new AbortController();
    let wanted = batch.length;
    const gone = batch.map(({ signal, reject }) => {
      const onAbort = (): void => {
        reject(signal.reason);
        if (--wanted === 0) stop.abort(signal.reason);
      };
      signal.addEventListener('abort', onAbort, { once: true });
      return () => signal.removeEventListener('abort', onAbort);
    });
    try {
      const replies = await this.#run(
        batch.map(({ order }) => order),
        stop.signal,
      );
      for (const [index, { resolve }] of batch.entries()) resolve(replies[index] as FoldReply);
    } catch (error) {
      if (batch.length === 1 || !(error instanceof WorkerError)) {
        for (const { reject } of batch) reject(error);
      } else {
        // One of them ended the thread, and nobody knows which.
        for (const one of batch) {
          await this.foldAlone(one.order, one.signal).then(one.resolve, one.reject);
        }
      }
    } finally {
      for (const off of gone) off();
    }
  }

  #run(orders: readonly FoldOrder[], signal: AbortSignal): Promise<readonly FoldReply[]> {
    const { logs, pieces } = joinLogs(orders.map(({ bodies }) => bodies));
    const jobs = orders.map(({ bodies: _, ...rest }, index): FoldJob => ({
      ...rest,
      log: logs[index] as PackedLog,
    }));
    return this.#offload.run(jobs, pieces, signal);
  }
}
