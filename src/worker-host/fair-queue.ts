/** What waits in a queue of threads. */
export interface Queued {
  /** A start may be refused when nothing can move; the wake of an accepted message may not. */
  readonly isRefusable: boolean;
  /** Whose tree it belongs to. */
  readonly root: object;
}

/**
 * Who waits for a thread: wakes of accepted messages before starts that were never accepted, each
 * in the order in which they came; of the starts one root after the other, so that none waits for
 * all that another has begun.
 */
export class FairQueue<T extends Queued> {
  readonly #wakes: T[] = [];
  /** Starts by root. The roots stand in the order in which they are served next. */
  readonly #starts = new Map<object, T[]>();
  /** Starts in the order in which they came, with their number. */
  readonly #arrivals = new Map<T, number>();
  #count = 0;

  get length(): number {
    return this.#wakes.length + this.#arrivals.size;
  }

  /** The one to be served next. */
  get first(): T | undefined {
    const [wake] = this.#wakes;
    if (wake !== undefined) return wake;
    for (const [first] of this.#starts.values()) return first;
    return undefined;
  }

  /** The start that came last. */
  get newestStart(): T | undefined {
    let newest: T | undefined;
    for (const starts of this.#starts.values()) {
      const last = starts.at(-1);
      if (last !== undefined && this.#numberOf(last) > this.#numberOf(newest)) newest = last;
    }
    return newest;
  }

  add(request: T): void {
    if (!request.isRefusable) return void this.#wakes.push(request);
    this.#arrivals.set(request, ++this.#count);
    const others = this.#starts.get(request.root);
    if (others === undefined) this.#starts.set(request.root, [request]);
    else others.push(request);
  }

  /** Take the first: its root has had its turn. */
  shift(): T | undefined {
    const { first } = this;
    if (first === undefined) return undefined;
    this.remove(first);
    const others = this.#starts.get(first.root);
    if (first.isRefusable && others !== undefined) {
      this.#starts.delete(first.root);
      this.#starts.set(first.root, others);
    }
    return first;
  }

  /** False when it does not wait (any more). */
  remove(request: T): boolean {
    if (!request.isRefusable) return removed(this.#wakes, request);
    if (!this.#arrivals.delete(request)) return false;
    const others = this.#starts.get(request.root) ?? [];
    removed(others, request);
    if (others.length === 0) this.#starts.delete(request.root);
    return true;
  }

  /** All that waited. */
  takeAll(): readonly T[] {
    const all = [...this.#wakes.splice(0), ...this.#arrivals.keys()];
    this.#arrivals.clear();
    this.#starts.clear();
    return all;
  }

  #numberOf(start: T | undefined): number {
    return (start && this.#arrivals.get(start)) ?? 0;
  }
}

function removed<T>(list: T[], one: T): boolean {
  const place = list.indexOf(one);
  if (place >= 0) list.splice(place, 1);
  return place >= 0;
}
