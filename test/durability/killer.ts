/** When one process is killed: at any time, or when something in particular is going on. */
import type { Dice } from '../interleavings/plan.ts';

/** What a transaction of the store may be about; `programs/trap.mjs` tells them apart. */
const SUBJECTS = [
  'accepted',
  'claimed',
  'step',
  'call',
  'result',
  'end',
  'notice',
  'report',
  'child',
  'discarded',
  'release',
  'take',
  'repair',
  'any',
] as const;
export type Subject = (typeof SUBJECTS)[number];
/** Where in it the process stands still until it is killed; its threads go on. */
export interface Trap {
  readonly when: 'before' | 'inside' | 'after';
  readonly what: Subject;
}

/** `held`: nothing can be committed for a while, because the file is locked. */
type Moment =
  | 'opening'
  | 'resuming'
  | 'time'
  | 'sent'
  | 'held'
  | 'model'
  | 'tool'
  | 'drain'
  | 'dispose';
export type Phase = `${Trap['when']} ${Subject}` | Moment | 'late';

export interface KillPlan {
  readonly phase: Phase;
  readonly trap?: Trap;
  /** The how manieth time. */
  readonly nth: number;
  /** Milliseconds from then on; part of one makes it a few turns of the loop. */
  readonly delayMs: number;
}

/** What the file holds that the next process finds. */
export interface Facts {
  readonly hasAgents: boolean;
  readonly hasOpenTurn: boolean;
  readonly hasUntold: boolean;
}

const WORKING: readonly Phase[] = [
  'before accepted',
  'after accepted',
  'held',
  'before report',
  'after claimed',
  'before step',
  'after step',
  'tool',
  'before call',
  'after call',
  'held',
  'model',
  'before result',
  'after report',
  'after result',
  'before end',
  'after end',
  'after claimed',
  'sent',
  'inside child',
  'before child',
  'after child',
  'inside any',
  'time',
];
const REOPENED: readonly Phase[] = [
  'opening',
  'resuming',
  'before take',
  'after take',
  'before notice',
  'after notice',
  'after discarded',
  'after release',
  'drain',
  'dispose',
  'before discarded',
  'tool',
];
const REPAIRING: readonly Phase[] = ['inside repair', 'before repair', 'after repair'];
const TELLING: readonly Phase[] = ['before notice', 'after notice'];

const trapOf = (phase: Phase): Trap | undefined => {
  const [when, what] = phase.split(' ');
  return what === undefined ? undefined : { when: when as Trap['when'], what: what as Subject };
};

/** @param place in [0, 1): which of those there are */
export function planOf(dice: Dice, place: number, facts: Facts): KillPlan {
  const choices = [
    ...WORKING,
    ...(facts.hasAgents ? REOPENED : []),
    ...(facts.hasOpenTurn ? REPAIRING : []),
    ...(facts.hasUntold ? TELLING : []),
  ];
  const phase = choices[Math.floor(place * choices.length)] ?? 'time';
  const at = (most: number): number => 1 + dice.int(most);
  const trap = trapOf(phase);
  if (trap !== undefined) {
    const most = { inside: 12, before: 4, after: 4 }[trap.when];
    const isFirst = trap.what === 'repair' || trap.what === 'take';
    // While main stands still before its commit, a thread may do what it was not to do yet.
    const delayMs = trap.when === 'before' ? dice.pick([0, 15, 40]) : 0;
    return { phase, trap, nth: at(isFirst ? 2 : most), delayMs };
  }
  switch (phase) {
    case 'opening':
      return { phase, nth: 1, delayMs: dice.int(60) };
    case 'resuming':
      return { phase, nth: 1, delayMs: dice.int(30) };
    case 'time':
      return { phase, nth: 1, delayMs: 20 + dice.int(400) };
    case 'sent':
      return { phase, nth: at(12), delayMs: dice.int(4) };
    case 'held':
      return { phase, nth: at(8), delayMs: 30 + dice.int(90) };
    case 'model':
      return { phase, nth: at(6), delayMs: dice.int(15) };
    case 'tool':
      return { phase, nth: at(3), delayMs: dice.int(8) };
    default:
      return { phase, nth: 1, delayMs: dice.int(30) };
  }
}

export class Killer {
  /** What it was in the end. */
  phase: Phase;
  /** Called when it is met, before the time that is left then. */
  onMet: () => void = () => {};
  readonly #plan: KillPlan;
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

  get trap(): Trap | undefined {
    return this.#plan.trap;
  }

  /** What is to be going on, whatever the place in it. */
  get subject(): Subject | Moment | 'late' {
    return this.#plan.trap?.what ?? (this.#plan.phase as Moment);
  }

  /** This is going on now. */
  meet(phase: Phase): void {
    if (phase !== this.#plan.phase || this.#timer !== undefined || this.#isOver) return;
    // The process itself counts how often it comes to a trap.
    if (this.#plan.trap === undefined && --this.#left > 0) return;
    const { delayMs } = this.#plan;
    this.onMet();
    if (delayMs === 0) this.#strike();
    else this.#timer = setTimeout(() => this.#strike(), delayMs);
  }

  /** The next time is the one. */
  hurry(): void {
    this.#left = 1;
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
