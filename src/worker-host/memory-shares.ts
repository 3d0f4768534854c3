/**
 * Whose the memory of a process is. The system tells how much all threads have together, and of
 * each what it did since the last look; this is the arithmetic in between. It knows no clock and
 * reads nothing. What is nobody's (main, helpers of the engine, threads of others) is kept as a
 * share of its own, so that it is never laid at the door of a thread.
 */

/** What one thread did since the last look. */
export interface Deed {
  /** In the unit of the sum that all threads did together: pages it was given, or time it was busy. */
  readonly grown: number;
  /** It can have let go of something. */
  readonly hasWorked: boolean;
}

export class MemoryShares<K> {
  readonly #shares = new Map<K, number>();
  /** Those that said so themselves. */
  readonly #told = new Set<K>();
  #others = 0;
  /** Of those that are gone, whose memory comes back some moments later. */
  #departed = 0;

  add(who: K): void {
    this.#shares.set(who, 0);
  }

  /** It is gone: what it had is the first to be missed. */
  remove(who: K): void {
    this.#departed += this.of(who);
    this.#shares.delete(who);
    this.#told.delete(who);
  }

  /** In bytes. */
  of(who: K): number {
    return this.#shares.get(who) ?? 0;
  }

  /** What of those that are gone has not come back by now is used by others, whoever they are. */
  forgetDeparted(): void {
    this.#others += this.#departed;
    this.#departed = 0;
  }

  /**
   * A thread's own word, or the engine's, which is better than what was concluded here: what it has
   * more than was thought, nobody else has. Of that at most `pagesBytes` are in use.
   */
  measured(who: K, bytes: number, pagesBytes: number): void {
    if (!this.#shares.has(who)) return;
    const before = this.of(who);
    this.#shares.set(who, bytes);
    this.#told.add(who);
    const more = Math.max(before, Math.min(bytes, pagesBytes)) - before;
    if (bytes < before) this.#others += before - bytes;
    else this.#take(more, (other) => other !== who && !this.#told.has(other));
  }

  /** The process has so many bytes more. `total` is what all of it did, those without a name too. */
  grew(bytes: number, deeds: ReadonlyMap<K, Deed>, total: number): void {
    const known = [...deeds.values()].reduce((sum, { grown }) => sum + grown, 0);
    const whole = Math.max(known, total);
    let left = bytes;
    for (const [who, { grown }] of deeds) {
      const part = whole > 0 ? (bytes * grown) / whole : 0;
      this.#shares.set(who, this.of(who) + part);
      left -= part;
    }
    this.#others += Math.max(0, left);
  }

  /**
   * The process has so many bytes less. First it is what those had that are gone; then that of
   * those who worked, in proportion, because nobody lets go of anything in his sleep.
   */
  fell(bytes: number, deeds: ReadonlyMap<K, Deed>): void {
    const ofDeparted = Math.min(bytes, this.#departed);
    this.#departed -= ofDeparted;
    const left = this.#take(bytes - ofDeparted, (who) => deeds.get(who)?.hasWorked === true);
    this.#take(left, () => true);
  }

  /** Take so much from these and from what is nobody's; returns what they did not have. */
  #take(bytes: number, isMeant: (who: K) => boolean): number {
    const meant = [...this.#shares].filter(([who]) => isMeant(who));
    const whole = meant.reduce((sum, [, share]) => sum + share, this.#others);
    if (bytes <= 0 || whole <= 0) return Math.max(0, bytes);
    const kept = Math.max(0, 1 - bytes / whole);
    for (const [who, share] of meant) this.#shares.set(who, share * kept);
    this.#others *= kept;
    return Math.max(0, bytes - whole);
  }
}
