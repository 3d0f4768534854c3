import type { CancelCause } from './session-events.ts';

const CAUSES = ['none', 'user', 'parent', 'hook', 'disposed', 'limit'] as const;
const CAUSE_BITS = 3;
const CAUSE_MASK = (1 << CAUSE_BITS) - 1;
/** Above every turn number that fits beside the cause in an Int32. */
const EVERY_TURN = 2 ** (31 - CAUSE_BITS) - 1;

/**
 * One shared Int32 per residency: `turn << 3 | cause`. Main is the only writer and stores it
 * once per turn, so the first cause wins; the loop compares it with the turn it is in. A turn
 * number, not a boolean: a flag raised for turn n says nothing about turn n + 1.
 */
export class CancelFlag {
  readonly #cell: Int32Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(4)) {
    this.#cell = new Int32Array(buffer);
  }

  get buffer(): SharedArrayBuffer {
    return this.#cell.buffer as SharedArrayBuffer;
  }

  /** Main only. Returns false when this turn was already told to stop. */
  raise(turn: number, cause: CancelCause['kind']): boolean {
    if (this.isRaised(turn)) return false;
    Atomics.store(this.#cell, 0, (turn << CAUSE_BITS) | CAUSES.indexOf(cause));
    Atomics.notify(this.#cell, 0);
    return true;
  }

  /** Main only. Every turn, now and later, is to stop. */
  raiseForEver(cause: CancelCause['kind']): void {
    Atomics.store(this.#cell, 0, (EVERY_TURN << CAUSE_BITS) | CAUSES.indexOf(cause));
    Atomics.notify(this.#cell, 0);
  }

  isRaised(turn: number): boolean {
    return Atomics.load(this.#cell, 0) >> CAUSE_BITS >= turn;
  }

  /** The first cause for this turn, or `undefined` while it may go on. */
  causeOf(turn: number): CancelCause['kind'] | undefined {
    const value = Atomics.load(this.#cell, 0);
    if (value >> CAUSE_BITS < turn) return undefined;
    const cause = CAUSES[value & CAUSE_MASK];
    return cause === undefined || cause === 'none' ? undefined : cause;
  }
}
