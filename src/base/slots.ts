import { listenForAbort } from './deferred.ts';

/** At most so many at once; the others wait for their turn, in the order they came. */
export class Slots {
  readonly #count: number;
  #taken = 0;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#count = count;
  }

  /**
   * Do this as soon as there is a place for it.
   * @throws the signal's own reason when it aborts before that; then it was not begun
   */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    signal?.throwIfAborted();
    if (this.#taken < this.#count) this.#taken++;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      // The place is handed on, not set free: nobody who comes now takes it from who waits.
      const [next] = this.#waiting;
      if (next === undefined) this.#taken--;
      else next();
    }
  }

  #turn(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const onAbort = (): void => {
        this.#waiting.delete(begin);
        reject(signal?.reason);
      };
      const begin = (): void => {
        this.#waiting.delete(begin);
        release?.();
        resolve();
      };
      this.#waiting.add(begin);
      const release = signal && listenForAbort(signal, onAbort);
    });
  }
}
