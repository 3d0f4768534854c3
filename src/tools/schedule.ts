/**
 * Which call may start, and whose result may be told. Calls start in the order they entered. An
 * exclusive one runs alone; others overlap up to a cap. Results are told in the same order: one
 * that settles early waits for all before it.
 */
export class Schedule<Call extends object> {
  readonly #capacity: number;
  /** All that are not told yet, in order; those from `#started` on have not started. */
  readonly #order: Call[] = [];
  #started = 0;
  readonly #running = new Set<Call>();
  readonly #settled = new Set<Call>();
  #isExclusive = false;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get size(): number {
    return this.#order.length;
  }

  enter(call: Call): void {
    this.#order.push(call);
  }

  /** The next one to start. */
  get next(): Call | undefined {
    return this.#order[this.#started];
  }

  mayStart(exclusive: boolean): boolean {
    if (this.#running.size === 0) return true;
    return !exclusive && !this.#isExclusive && this.#running.size < this.#capacity;
  }

  /** Start the next one. */
  start(exclusive: boolean): void {
    this.#running.add(this.#order[this.#started++]!);
    this.#isExclusive = exclusive;
  }

  /** A started one has its result. Returns those to tell now, in order. */
  settle(call: Call): readonly Call[] {
    this.#running.delete(call);
    this.#settled.add(call);
    return this.#tellable();
  }

  /** A started one will have no result. Returns those to tell now, in order. */
  drop(call: Call): readonly Call[] {
    const index = this.#order.indexOf(call);
    if (index === -1) return [];
    this.#order.splice(index, 1);
    this.#running.delete(call);
    this.#started--;
    return this.#tellable();
  }

  /** Those that have not started leave. */
  takeWaiting(): readonly Call[] {
    return this.#order.splice(this.#started);
  }

  /** Everyone leaves, in order. */
  takeAll(): readonly Call[] {
    this.#running.clear();
    this.#settled.clear();
    this.#started = 0;
    return this.#order.splice(0);
  }

  #tellable(): readonly Call[] {
    const count = this.#order.findIndex((call) => !this.#settled.has(call));
    const told = this.#order.splice(0, count === -1 ? this.#order.length : count);
    for (const call of told) this.#settled.delete(call);
    this.#started -= told.length;
    return told;
  }
}
