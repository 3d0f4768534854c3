/**
 * Which call may start, and whose result may be told. Calls start in the order they entered. An
 * exclusive one is alone from its start until it is told; the bodies of others overlap up to a
 * cap. Results are told in the same order: one that settles early waits for all before it.
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

  enter(call: Call): void {
    this.#order.push(call);
  }

  /** The next one to start. */
  get next(): Call | undefined {
    return this.#order[this.#started];
  }

  /** The first one that has started and is not told. */
  get first(): Call | undefined {
    return this.#started === 0 ? undefined : this.#order[0];
  }

  mayStart(exclusive: boolean): boolean {
    if (this.#started === 0) return true;
    return !exclusive && !this.#isExclusive && this.#running.size < this.#capacity;
  }

  /** Start the next one. */
  start(exclusive: boolean): void {
    this.#running.add(this.#order[this.#started++]!);
    this.#isExclusive = exclusive;
  }

  /** The body of a started one is over: there is room for another. */
  release(call: Call): void {
    this.#running.delete(call);
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
