/** What becomes of a turn that takes too long, or that does not stop when it is told to. */
import type { Clock, Timer } from '../base/clock.ts';
import type { OpenTurn } from './open-turn.ts';

/** From main's last answer to the end of a thread that did not stop its turn on hearing it. */
const HEARING_MS = 1_000;

export interface TurnDeadlinesOptions {
  readonly clock: Clock;
  isOpen(turn: OpenTurn): boolean;
  /**
   * The turn's thread can only wait: a tool call of its own runs on main. Contract: not for ever;
   * a call that was told to stop is given up in its time.
   */
  isHeldUp(): boolean;
}

export class TurnDeadlines {
  readonly #options: TurnDeadlinesOptions;
  #timers: Timer[] = [];

  constructor(options: TurnDeadlinesOptions) {
    this.#options = options;
  }

  /** Run this unless the turn is over by then. */
  after(turn: OpenTurn, ms: number, run: () => void): void {
    const { clock, isOpen } = this.#options;
    this.#timers.push(clock.after(ms, () => void (isOpen(turn) && run())));
  }

  /**
   * The turn is being told to stop, in this tick: run `end` unless it is over after the grace.
   *
   * An agent whose call waits for a child of its own is told together with that child, so that
   * both graces are over in the same tick, and the child is the one to be ended by force: its
   * parent's thread obeys, it only was not answered yet. It goes on waiting until the call has
   * its result, and then has the time to hear of it. A thread that does not obey has no more
   * than that, too: a tree of any depth is still when its calls are given up, and heard of.
   */
  stop(turn: OpenTurn, graceMs: number, end: () => void): void {
    const look = (wasHeldUp: boolean): void => {
      const isHeldUp = this.#options.isHeldUp();
      if (isHeldUp || wasHeldUp) this.after(turn, HEARING_MS, () => look(isHeldUp));
      else end();
    };
    // Held up now, it may be answered in the very tick in which the grace is over.
    const isHeldUp = this.#options.isHeldUp();
    this.after(turn, graceMs, () => look(isHeldUp));
  }

  clear(): void {
    for (const timer of this.#timers.splice(0)) timer.cancel();
  }
}
