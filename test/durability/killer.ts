/** When one process is killed: at any time, or at the n-th time that something is going on. */
import type { Dice } from '../interleavings/plan.ts';

/** Where the process itself stands still, inside of its store, until it is killed. */
const TRAPS = ['begin', 'insert', 'commit', 'committed', 'take', 'repair'] as const;
const OTHERS = ['start', 'recovery', 'time', 'sent', 'model', 'tool', 'drain', 'dispose'] as const;

export type Phase = (typeof TRAPS)[number] | (typeof OTHERS)[number] | 'late';

export interface KillPlan {
  readonly phase: Phase;
  readonly nth: number;
  /** Milliseconds from then on; part of one makes it a few turns of the loop. */
  readonly delayMs: number;
}

/** What there is to kill in a process whose file holds something, and in the very first one. */
export function planOf(dice: Dice, isReopened: boolean): KillPlan {
  const phase = dice.pick<Phase>(
    isReopened
      ? [...TRAPS, ...OTHERS, 'time', 'sent', 'model', 'tool', 'tool', 'repair', 'take']
      : ['time', 'sent', 'model', 'tool', 'insert', 'commit', 'committed', 'drain', 'start'],
  );
  const at = (most: number): number => 1 + dice.int(most);
  switch (phase) {
    case 'begin':
    case 'insert':
    case 'commit':
    case 'committed':
      return { phase, nth: at(phase === 'insert' ? 80 : 25), delayMs: 0 };
    case 'take':
      return { phase, nth: at(3), delayMs: 0 };
    case 'repair':
      return { phase, nth: at(2), delayMs: 0 };
    case 'start':
      return { phase, nth: 1, delayMs: dice.int(400) };
    case 'recovery':
      return { phase, nth: 1, delayMs: dice.int(80) };
    case 'time':
      return { phase, nth: 1, delayMs: 50 + dice.int(900) };
    case 'sent':
      return { phase, nth: at(15), delayMs: dice.int(4) };
    case 'model':
      return { phase, nth: at(8), delayMs: dice.int(20) };
    case 'tool':
      return { phase, nth: at(4), delayMs: dice.int(10) };
    default:
      return { phase, nth: 1, delayMs: dice.int(40) };
  }
}

export class Killer {
  /** What it was in the end. */
  phase: Phase;
  #plan: KillPlan;
  readonly #kill: () => void;
  #left: number;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOver = false;

  constructor(plan: KillPlan, kill: () => void) {
    this.phase = plan.phase;
    this.#plan = plan;
    this.#left = plan.nth;
    this.#kill = kill;
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get isTrap(): boolean {
    return (TRAPS as readonly Phase[]).includes(this.#plan.phase);
  }

  wants(phase: Phase): boolean {
    return this.#plan.phase === phase;
  }

  /** This is going on now. A trap counts by itself: it is met once. */
  meet(phase: Phase): void {
    if (phase !== this.#plan.phase || this.#timer !== undefined || this.#isOver) return;
    if (!this.isTrap && --this.#left > 0) return;
    const { delayMs } = this.#plan;
    if (delayMs === 0) this.#strike();
    else this.#timer = setTimeout(() => this.#strike(), delayMs);
  }

  /** It did not come to that: now, then. */
  give(): void {
    if (this.#isOver || this.#timer !== undefined) return;
    this.phase = 'late';
    this.#strike();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#isOver = true;
  }

  #strike(): void {
    this.stop();
    this.#kill();
  }
}
