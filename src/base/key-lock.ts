/** Serialises work by key: one at a time for each, in the order it came. */
export class KeyLock<Key> {
  /** The end of each key's queue; absent when nobody is in it. */
  readonly #tails = new Map<Key, Promise<void>>();

  /**
   * Run this once all earlier work for the key is over, however that ended. Nothing of it runs
   * before the next microtask, also when nobody is in front.
   */
  async run<T>(key: Key, work: () => T | Promise<T>): Promise<T> {
    const before = this.#tails.get(key);
    const result = (async () => {
      await before;
      return work();
    })();
    const tail = result.then(
      () => {},
      () => {},
    );
    this.#tails.set(key, tail);
    try {
      return await result;
    } finally {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    }
  }
}
