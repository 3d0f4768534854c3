import type { HarnessError } from '../../protocol/errors.ts';
import type { Clock } from './clock.ts';
import { elapsed } from './clock.ts';
import { deferred } from './deferred.ts';

/** For one who is asked for the first time when nearly all of the time is over. */
const LAST_MS = 1_000;
/** However busy main is, nobody is waited for more than so many times as long. */
const MOST_TIMES = 6;

interface End {
  readonly since: number;
  /** When it is over. */
  at: number;
  /** What the loop had to do since then is looked at. */
  from: { readonly at: number; readonly busyMs: number };
  isAsked: boolean;
}

/**
 * How long those who end wait for what they do not own: a store, the code of a caller. It runs
 * from the moment in which an end is decided, whatever else has to be waited for first; what is
 * answered later is dropped. A store and a caller's code have only the time of this thread's loop:
 * while that was busy for more than half of the time, with a thousand ends at once, nobody was
 * silent, and there is more.
 */
export class Patience {
  readonly #clock: Clock;
  readonly #ms: number;
  readonly #late: (ms: number) => HarnessError;
  readonly #ends = new WeakMap<object, End>();

  /** When somebody was not answered last: who ends since before gets no more time for it. */
  #silentAt = Number.NEGATIVE_INFINITY;

  /** @param late what to say of whoever did not answer within so many milliseconds */
  constructor(clock: Clock, ms: number, late: (ms: number) => HarnessError) {
    this.#clock = clock;
    this.#ms = ms;
    this.#late = late;
  }

  /** The end of this is decided. Idempotent. */
  begin(what: object): void {
    if (this.hasBegun(what)) return;
    const since = elapsed(this.#clock);
    const from = { at: since, busyMs: busyMs(this.#clock) };
    this.#ends.set(what, { since, at: since + this.#ms, from, isAsked: false });
  }

  hasBegun(what: object): boolean {
    return this.#ends.has(what);
  }

  /** @throws {HarnessError} when no answer comes in time */
  async await<T>(what: object, answer: Promise<T>): Promise<T> {
    this.begin(what);
    const end = this.#ends.get(what) as End;
    const now = elapsed(this.#clock);
    if (!end.isAsked && end.since > this.#silentAt) end.at = Math.max(end.at, now + LAST_MS);
    end.isAsked = true;
    answer.catch(() => {});
    const late = deferred<never>();
    const refuse = (): void => {
      const at = elapsed(this.#clock);
      const from = end.from;
      end.from = { at, busyMs: busyMs(this.#clock) };
      const isBusy = end.from.busyMs - from.busyMs > (at - from.at) / 2;
      if (isBusy && at - end.since < this.#ms * MOST_TIMES) {
        return void (timer = this.#clock.after(LAST_MS, refuse, true));
      }
      this.#silentAt = at;
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

const busyMs = (clock: Clock): number => clock.busyMs?.() ?? 0;
