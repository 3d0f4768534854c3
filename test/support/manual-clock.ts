import type { Clock, Timer } from '../../src/base/clock.ts';

interface Entry {
  readonly at: number;
  readonly run: () => void;
}

/** Time that stands still until a test moves it. */
export class ManualClock implements Clock {
  readonly #timers = new Set<Entry>();
  #now: number;

  constructor(now = 1_700_000_000_000) {
    this.#now = now;
  }

  now(): number {
    return this.#now;
  }

  after(ms: number, run: () => void): Timer {
    const entry: Entry = { at: this.#now + Math.max(0, ms), run };
    this.#timers.add(entry);
    return { cancel: () => void this.#timers.delete(entry) };
  }

  /** Timers that are set. */
  get pending(): number {
    return this.#timers.size;
  }

  /**
   * Move time on and run what comes due, in order of time, then of setting. All that follows
   * from each without a timer has happened before the next runs, and before this resolves.
   */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    await settled();
    for (;;) {
      let due: Entry | undefined;
      for (const entry of this.#timers) {
        if (entry.at <= until && (due === undefined || entry.at < due.at)) due = entry;
      }
      if (due === undefined) break;
      this.#timers.delete(due);
      this.#now = Math.max(this.#now, due.at);
      due.run();
      await settled();
    }
    this.#now = until;
  }
}

/** Every promise that can settle now has settled. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
