/**
 * Whose new pages a process has grown by. A thread that frees what it takes is given pages all the
 * time, and the process is no larger for it; so what each thread gave back in the past is expected
 * of it again, as far as more pages were given than the process has grown by. Knows no clock and
 * reads nothing.
 */

/** What one of those that share a process did since it was last looked at. */
export interface Faulting {
  readonly faults: number;
  readonly overMs: number;
}

export class PageFaults<K extends object> {
  /** Pages for each millisecond that were given, and given back. */
  readonly #churn = new WeakMap<K, number>();

  /** Of the pages that each was given, those that it seems to have kept. */
  kept(pages: number, given: ReadonlyMap<K, Faulting>): ReadonlyMap<K, number> {
    const total = sum([...given.values()].map(({ faults }) => faults));
    const expected = new Map<K, number>();
    for (const [who, { faults, overMs }] of given) {
      expected.set(who, Math.min(faults, (this.#churn.get(who) ?? 0) * overMs));
    }
    const givenBack = Math.max(0, total - Math.max(0, pages));
    const expectedBack = sum([...expected.values()]);
    const scale = expectedBack > givenBack ? givenBack / expectedBack : 1;
    const kept = new Map<K, number>();
    for (const [who, { faults }] of given) kept.set(who, faults - expected.get(who)! * scale);
    this.#learn(pages, given, kept);
    return kept;
  }

  #learn(pages: number, given: ReadonlyMap<K, Faulting>, kept: ReadonlyMap<K, number>): void {
    const whole = sum([...kept.values()]);
    for (const [who, { faults, overMs }] of given) {
      if (overMs <= 0) continue;
      const part = whole > 0 ? (Math.max(0, pages) * kept.get(who)!) / whole : 0;
      const seen = Math.max(0, faults - part) / overMs;
      this.#churn.set(who, ((this.#churn.get(who) ?? seen) + seen) / 2);
    }
  }
}

const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);
