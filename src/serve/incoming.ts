import { deferred, raceSignal } from '../base/deferred.ts';

/** How many may wait for their reader before whoever sends them is held up. */
const FULL = 64;

/** What comes in, until it is read. Tells when it is full, and when it is no more. */
export class Incoming<T> {
  readonly #flow: (isFull: boolean) => void;
  readonly #waiting: T[] = [];
  #stirred = deferred<void>();
  #isFull = false;
  #end: { readonly error?: unknown } | undefined;

  constructor(flow: (isFull: boolean) => void) {
    this.#flow = flow;
  }

  push(value: T): void {
    if (this.#end !== undefined) return;
    this.#waiting.push(value);
    this.#stirred.resolve();
    if (this.#waiting.length >= FULL) this.#setFull(true);
  }

  end(): void {
    this.#end ??= {};
    this.#stirred.resolve();
  }

  fail(error: unknown): void {
    this.#end ??= { error };
    this.#stirred.resolve();
  }

  /** Nobody reads any more. */
  close(): void {
    this.end();
    this.#waiting.length = 0;
    this.#setFull(false);
  }

  /** `undefined` at the end. @throws what it failed with, after all that came before */
  async next(signal: AbortSignal | undefined): Promise<{ readonly value: T } | undefined> {
    for (;;) {
      signal?.throwIfAborted();
      if (this.#waiting.length > 0) {
        const value = this.#waiting.shift() as T;
        if (this.#waiting.length === 0) this.#setFull(false);
        return { value };
      }
      if (this.#end !== undefined) {
        if ('error' in this.#end) throw this.#end.error;
        return undefined;
      }
      this.#stirred = deferred();
      await raceSignal(this.#stirred.promise, signal);
    }
  }

  #setFull(isFull: boolean): void {
    if (isFull === this.#isFull) return;
    this.#isFull = isFull;
    this.#flow(isFull);
  }
}
