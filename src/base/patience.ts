import type { HarnessError } from '../../protocol/errors.ts';
import type { Clock } from './clock.ts';
import { elapsed } from './clock.ts';
import { deferred } from './deferred.ts';

/** For one who is asked for the first time when nearly all of the time is over. */
const LAST_MS = 1_000;
/** One that answers others all the time is waited for so many times as long, and then no more. */
const MOST_TIMES = 12;

export interface PatienceOptions {
  readonly clock: Clock;
  readonly ms: number;
  /** What to say of whoever did not answer within so many milliseconds. */
  late(ms: number): HarnessError;
  /**
   * All wait for the same one, such as a store: while it answers others it is not silent but has
   * much to do, and the time runs from its last answer.
   */
  readonly isOfOne?: boolean;
}

/**
 * How long those who end wait for what they do not own: a store, the code of a caller. It runs
 * from the moment in which an end is decided, whatever else has to be waited for first; what is
 * answered later is dropped.
 */
export class Patience {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #late: (ms: number) => HarnessError;
  readonly #isOfOne: boolean;
  /** When it is over. */
  readonly #ends = new WeakMap<object, { since: number; at: number; isAsked: boolean }>();

  /** When somebody was not answered last: who ends since before gets no more time for it. */
  #silentAt = Number.NEGATIVE_INFINITY;

  #answeredAt = Number.NEGATIVE_INFINITY;

  constructor({ clock, ms, late, isOfOne = false }: PatienceOptions) {
    this.#clock = clock;
    this.#ms = ms;
    this.#late = late;
    this.#isOfOne = isOfOne;
  }

  /** The end of this is decided. Idempotent. */
  begin(what: object): void {
    if (this.hasBegun(what)) return;
    const since = elapsed(this.#clock);
    this.#ends.set(what, { since, at: since + this.#ms, isAsked: false });
  }

  hasBegun(what: object): boolean {
    return this.#ends.has(what);
  }

  /** @throws {HarnessError} when no answer comes in time */
  async await<T>(what: object, answer: Promise<T>): Promise<T> {
    this.begin(what);
    const end = this.#ends.get(what) as { since: number; at: number; isAsked: boolean };
    const now = elapsed(this.#clock);
    if (!end.isAsked && end.since > this.#silentAt) end.at = Math.max(end.at, now + LAST_MS);
    end.isAsked = true;
    const answered = (): void => void (this.#answeredAt = elapsed(this.#clock));
    answer.then(answered, answered);
    const late = deferred<never>();
    const refuse = (): void => {
      const over = elapsed(this.#clock);
      const isBusy = this.#isOfOne && over - end.since < this.#ms * MOST_TIMES;
      const again = isBusy ? this.#answeredAt + this.#ms - over : 0;
      if (again > 0) return void (timer = this.#clock.after(again, refuse, true));
      this.#silentAt = over;
      late.reject(this.#late(this.#ms));
    };
    let timer = this.#clock.after(Math.max(0, end.at - now), refuse, true);
    try {
      return await Promise.race([answer, late.promise]);
    } finally {
      timer.cancel();
    }
  }
}
