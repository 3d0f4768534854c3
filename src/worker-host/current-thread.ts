/**
 * The thread that an agent has now: none, one on its way, one that is there, or one on its way
 * out. At most one at a time, and a wake outlives each of these changes. What a thread that came
 * or went means for the agent's turn is the agent's to say.
 */
import type { CancelCause } from '../../protocol/session-events.ts';
import { listenForAbort } from '../base/deferred.ts';
import type { Residency } from './residency.ts';
import type { ThreadEnd } from './thread.ts';

export interface CurrentThreadOptions {
  readonly stopGraceMs: number;
  /** Contract: after an abort of the signal it rejects, and nothing of the thread is left. */
  reside(signal: AbortSignal, isFirst: boolean): Promise<Residency>;
  /** The agent is at work: the process waits for its thread. */
  isWanted(): boolean;
  /** A thread for a wake is there. */
  came(): void;
  /** None came for it. */
  failed(error: unknown): void;
  /** It is gone, and is not the current one any more. */
  left(residency: Residency, end: ThreadEnd): void;
}

export class CurrentThread {
  readonly #options: CurrentThreadOptions;
  readonly #ending = new AbortController();
  #residency: Residency | undefined;
  #arrival: Promise<void> | undefined;

  constructor(options: CurrentThreadOptions) {
    this.#options = options;
  }

  get residency(): Residency | undefined {
    return this.#residency;
  }

  /** Settled when a thread that is on its way is there, or is not coming. Never rejects. */
  get arrival(): Promise<void> | undefined {
    return this.#arrival;
  }

  get isNone(): boolean {
    return this.#residency === undefined && this.#arrival === undefined;
  }

  /** One is on its way, or on its way out: then a wake is answered by what comes of that. */
  get isChanging(): boolean {
    return this.#residency === undefined
      ? this.#arrival !== undefined
      : !this.#residency.takesTurns;
  }

  /** The one that the agent begins with. Rejects when it does not come. */
  async first(signal?: AbortSignal): Promise<void> {
    const abort = (): void => this.#ending.abort(signal?.reason);
    if (signal?.aborted === true) abort();
    const release = signal && listenForAbort(signal, abort);
    try {
      this.#adopt(await this.#options.reside(this.#ending.signal, true));
    } finally {
      release?.();
    }
  }

  /** Have a loop ask for a turn: that of this thread, or of the next. */
  wake(): void {
    if (this.#residency?.takesTurns === true) return this.#residency.wake();
    // One arrival at a time; after a thread that is on its way out `left` brings the next.
    if (!this.isNone) return;
    const { reside, came, failed, stopGraceMs } = this.#options;
    this.#arrival = reside(this.#ending.signal, false).then(
      async (residency) => {
        // Ended after the thread was ready and before it was ours: `arrival` is waited for.
        if (this.#ending.signal.aborted) {
          await residency.stop(stopGraceMs, 'disposed');
          return failed(this.#ending.signal.reason);
        }
        this.#arrival = undefined;
        this.#adopt(residency);
        residency.wake();
        came();
      },
      (error: unknown) => {
        this.#arrival = undefined;
        failed(error);
      },
    );
  }

  /** No other thread comes, and one that is on its way is given up. */
  end(reason: Error): void {
    this.#ending.abort(reason);
  }

  /** Politely, and by force after the grace. Resolves when it is gone; at once without one. */
  async stop(cause: CancelCause['kind']): Promise<void> {
    await this.#residency?.stop(this.#options.stopGraceMs, cause);
  }

  /** Give it up for another agent; the next wake brings another. */
  leave(): Promise<void> {
    // Until it is gone somebody waits for it, and the process must, too.
    this.hold(true);
    return this.stop('disposed');
  }

  /** Whether it keeps the process alive. */
  hold(held: boolean): void {
    this.#residency?.hold(held);
  }

  #adopt(residency: Residency): void {
    this.#residency = residency;
    residency.hold(this.#options.isWanted());
    void residency.ended.then((end) => {
      if (this.#residency !== residency) return;
      this.#residency = undefined;
      this.#options.left(residency, end);
    });
  }
}
