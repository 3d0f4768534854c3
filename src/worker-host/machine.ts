/**
 * How many threads the machine bears. Past its memory maps, or its descriptors, the process does
 * not get an error for one thread more: it aborts, at once and without an event. So what is left
 * is read, seldom, because it is slow, and every thread is counted with what it may still take.
 */
import { elapsed } from '../base/clock.ts';
import type { Clock } from '../base/clock.ts';
import type { ProcessReadings, Stock } from './process-readings.ts';

export interface MachineCapacityOptions {
  readonly clock: Clock;
  readonly readings: ProcessReadings;
  /** Bytes that the process may have in all. */
  budgetBytes(): number;
}

/** What threads run out of first. */
export type Resource = 'memory' | 'memory maps' | 'descriptors';

const MIB = 1024 * 1024;
/** What one thread with an agent takes, and what is left for everything else. */
const THREAD_BYTES = 10 * MIB;
const THREAD_MAPS = 52;
const SPARE_MAPS = 4_096;
const THREAD_DESCRIPTORS = 5;
const SPARE_DESCRIPTORS = 64;
const READ_MS = 1_000;
/** Reading takes at most one part in so many of main's time. */
const THRIFT = 50;

export class MachineCapacity {
  readonly #options: MachineCapacityOptions;
  #readAt = Number.NEGATIVE_INFINITY;
  #pauseMs = 0;
  #most = Number.POSITIVE_INFINITY;
  #bound: Resource = 'memory';

  constructor(options: MachineCapacityOptions) {
    this.#options = options;
  }

  /** Threads that may exist at once, as of some moment ago, when `live` of them do now. */
  most(live: number): number {
    const { clock } = this.#options;
    const since = elapsed(clock);
    if (since - this.#readAt < this.#pauseMs) return this.#most;
    this.#read(live);
    this.#readAt = elapsed(clock);
    this.#pauseMs = Math.max(READ_MS, (this.#readAt - since) * THRIFT);
    return this.#most;
  }

  /** What there would be too little of for one more, as of the last `most`. */
  get bound(): Resource {
    return this.#bound;
  }

  #read(live: number): void {
    const { readings, budgetBytes } = this.#options;
    const rss = readings.rssBytes() ?? 0;
    const free = Math.min(budgetBytes() - rss, readings.freeBytes());
    const rooms: [Resource, number][] = [
      ['memory', free / THREAD_BYTES],
      ['memory maps', room(readings.maps(), live, THREAD_MAPS, SPARE_MAPS)],
      ['descriptors', room(readings.descriptors(), live, THREAD_DESCRIPTORS, SPARE_DESCRIPTORS)],
    ];
    const [[resource, least]] = rooms.toSorted(([, a], [, b]) => a - b) as [[Resource, number]];
    this.#bound = resource;
    this.#most = live + Math.max(0, Math.floor(least));
  }
}

/** Threads that there is still room for, when those that live have taken all that each may. */
function room(stock: Stock | undefined, live: number, each: number, spare: number): number {
  // Nothing tells, so nothing is known to be in the way.
  if (stock === undefined) return Number.POSITIVE_INFINITY;
  const used = Math.max(stock.used, live * each);
  return (stock.most - spare - used) / each;
}
