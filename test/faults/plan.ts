/** Which faults a run consists of: a seed makes all of it. */
import { Dice } from '../interleavings/plan.ts';
import { KINDS, kindOf } from './kinds.ts';
import { cellsOf, MOMENTS } from './moments.ts';
import type { Cell, Moment } from './moments.ts';

export interface PlanOptions {
  readonly faults: number;
  readonly seed: number;
  readonly kind?: string | undefined;
  readonly moment?: string | undefined;
  readonly mode?: string | undefined;
  readonly depth?: number | undefined;
  readonly siblings?: number | undefined;
}

/** Siblings cost more than the fault: most faults do without. */
const WITH_SIBLINGS = 0.25;

/**
 * Faults on a ground of their kind: kinds in turn, each at its moments in turn, and of those cells
 * one by chance, so that a short run meets every kind and a long one all cells.
 */
export function planOf(options: PlanOptions): readonly Cell[] {
  const { faults, seed } = options;
  const dice = new Dice(seed);
  const kinds = KINDS.filter(({ name, fault }) =>
    options.kind === undefined ? fault !== 'not contained' : name === options.kind,
  ).map(({ name }) => {
    const perMoment = MOMENTS.filter(
      (moment) => options.moment === undefined || moment === options.moment,
    )
      .map((moment) => cellsOf(kindOf(name), moment).filter((cell) => isAsked(cell, options)))
      .filter((cells) => cells.length > 0);
    return { perMoment, next: dice.int(MOMENTS.length) };
  });
  const playable = kinds.filter(({ perMoment }) => perMoment.length > 0);
  if (playable.length === 0) throw new Error('There is no such fault.');
  return Array.from({ length: faults }, (_, at) => {
    const kind = playable[at % playable.length]!;
    const cells = kind.perMoment[kind.next++ % kind.perMoment.length]!;
    const wanted = dice.chance(WITH_SIBLINGS);
    const fitting = cells.filter(({ siblings }) => siblings > 0 === wanted);
    return dice.pick(fitting.length > 0 ? fitting : cells);
  });
}

const isAsked = (cell: Cell, { mode, depth, siblings }: PlanOptions): boolean =>
  (mode === undefined || cell.mode === mode) &&
  (depth === undefined || cell.depth === depth) &&
  (siblings === undefined || cell.siblings === siblings);

/** Where a fault that is seen by a deadline alone is seen soon. */
const SOON: readonly Moment[] = ['cancel', 'tool', 'dispose', 'cancel', 'turn'];

/** Each kind that a thread contains once, at a moment of its own: what there is time for always. */
export function shortPlan(): readonly Cell[] {
  return KINDS.filter(({ fault }) => fault === 'contained').map((kind, at) => {
    const isSlow = ['blocked', 'silent'].includes(kind.effect);
    const moments = (isSlow ? SOON : MOMENTS).filter((moment) => cellsOf(kind, moment).length > 0);
    const cells = cellsOf(kind, moments[at % moments.length]!);
    const company = at % COMPANY_EVERY === 0 ? 7 : 0;
    const fitting = cells.filter(({ siblings }) => siblings === company);
    return fitting[Math.floor(at / 2) % fitting.length]!;
  });
}
const COMPANY_EVERY = 12;
