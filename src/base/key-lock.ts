/** Runs the operations of one key one after another; those of different keys overlap. */
export class KeyLock<K> {
  readonly #tails = new Map<K, Promise<void>>();

  /** First come, first served. A failure is the caller's; the next operation runs all the same. */
  run<T>(key: K, operation: () => Promise<T> | T): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve();
    const result = before.then(operation);
    const tail = result.then(
      () => {},
      () => {},
    );
    this.#tails.set(key, tail);
    void tail.then(() => {
      if (this.#tails.get(key) === tail) this.#tails.delete(key);
    });
    return result;
  }

  get size(): number {
    return this.#tails.size;
  }
}
