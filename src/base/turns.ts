/**
 * Long work in steps. Whoever has done a step waits here for the next: all who wait go on one
 * after the other, one in each round of the event loop, so that many of them at once hold up
 * other work of this thread for no longer than one.
 */
export class Turns {
  readonly #waiting: (() => void)[] = [];

  next(): Promise<void> {
    return new Promise((resume) => {
      this.#waiting.push(resume);
      if (this.#waiting.length === 1) setImmediate(this.#go);
    });
  }

  readonly #go = (): void => {
    this.#waiting.shift()?.();
    // What was set in a round of immediates runs in the round after it.
    if (this.#waiting.length > 0) setImmediate(this.#go);
  };
}
