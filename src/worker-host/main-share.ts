/**
 * How much of main's time the frames of all threads get together, between two turns of its loop.
 * Whoever has used it up leaves its frames waiting, and they are taken later, one from each
 * thread in turn: a thread that says much waits for itself, and nobody waits long for it. Main
 * has one loop, so there is one of these.
 */
export interface Waiting {
  /** Take the oldest frame that waits. Returns whether more of them do. Must not throw. */
  takeNext(): boolean;
}

/** Milliseconds of one turn of the loop; one frame more may have begun in them. */
const SHARE_MS = 4;

export class MainShare {
  readonly #later: (run: () => void) => void;
  readonly #waiting: Waiting[] = [];
  #spentMs = 0;
  #isScheduled = false;

  /** @param later runs something in a later turn of the loop */
  constructor(later: (run: () => void) => void = setImmediate) {
    this.#later = later;
  }

  get isUsedUp(): boolean {
    return this.#spentMs >= SHARE_MS;
  }

  /** A frame took so long. */
  spend(ms: number): void {
    if (ms <= 0) return;
    this.#spentMs += ms;
    this.#schedule();
  }

  /** Frames wait there from now on; they did not before. */
  add(waiting: Waiting): void {
    this.#waiting.push(waiting);
    this.#schedule();
  }

  /** Nothing waits there any more. */
  remove(waiting: Waiting): void {
    const index = this.#waiting.indexOf(waiting);
    if (index !== -1) this.#waiting.splice(index, 1);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#later(() => {
      this.#isScheduled = false;
      this.#spentMs = 0;
      for (let next = this.#next(); next !== undefined; next = this.#next()) {
        if (next.takeNext()) this.#waiting.push(next);
      }
      // What waits still has used this turn's share up, by itself or together.
      if (this.#waiting.length > 0) this.#schedule();
    });
  }

  #next(): Waiting | undefined {
    return this.isUsedUp ? undefined : this.#waiting.shift();
  }
}
