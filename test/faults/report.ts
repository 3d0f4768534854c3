/** What a run came to: one line per kind, and the figures that are promised. */
import type { GroundEnd } from './ground-process.ts';
import { kindOf } from './kinds.ts';
import { DISPOSE_MS, STALL_MS } from './limits.ts';
import { nameOf } from './moments.ts';
import type { Outcome } from './run.ts';

interface Row {
  faults: number;
  wrong: number;
  settleMs: number;
  probeMs: number;
  moments: Set<string>;
}

export class Report {
  readonly #rows = new Map<string, Row>();
  readonly #outcomes: Outcome[] = [];
  readonly #settleMs: number[] = [];
  #wedged = 0;
  #slowEnds = 0;

  add(outcome: Outcome): void {
    const { cell, wrong, seen, probing } = outcome;
    const row = this.#rows.get(cell.kind) ?? {
      faults: 0,
      wrong: 0,
      settleMs: 0,
      probeMs: 0,
      moments: new Set<string>(),
    };
    this.#rows.set(cell.kind, row);
    row.faults++;
    if (wrong.length > 0) row.wrong++;
    row.moments.add(cell.moment);
    row.probeMs = Math.max(row.probeMs, probing.worstMs);
    const { settleMs } = seen ?? {};
    if (settleMs !== undefined) {
      row.settleMs = Math.max(row.settleMs, settleMs);
      if (kindOf(cell.kind).fault === 'contained') this.#settleMs.push(Math.max(0, settleMs));
    }
    this.#outcomes.push(outcome);
  }

  addEnd({ hangs, disposeMs = 0 }: GroundEnd): void {
    if (hangs === true) this.#wedged++;
    if (disposeMs > DISPOSE_MS) this.#slowEnds++;
  }

  get failures(): readonly Outcome[] {
    return this.#outcomes.filter(({ wrong }) => wrong.length > 0);
  }

  get isClean(): boolean {
    return this.failures.length === 0 && this.#wedged === 0 && this.#slowEnds === 0;
  }

  /** The figures, by what they count; those of faults that are to be contained. */
  figures(): Readonly<Record<string, number>> {
    const contained = this.#outcomes.filter(({ cell }) => kindOf(cell.kind).fault === 'contained');
    const seen = contained.flatMap((outcome) => (outcome.seen === undefined ? [] : [outcome.seen]));
    const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
    const sorted = this.#settleMs.toSorted((a, b) => a - b);
    const disposals = seen.flatMap(({ disposeMs }) => (disposeMs === undefined ? [] : [disposeMs]));
    return {
      faults: this.#outcomes.length,
      'of them to be contained': contained.length,
      'crashes of main': contained.length - seen.length,
      [`stalls of main > ${STALL_MS} ms`]: contained.filter(
        ({ probing }) => probing.worstMs > STALL_MS,
      ).length,
      'wedged exits': this.#wedged,
      'sibling results lost or wrong': sum(
        seen.map(
          ({ siblings: { wanted, got } }) => wanted.filter((one, at) => got[at] !== one).length,
        ),
      ),
      'sibling results in all': sum(seen.map(({ siblings }) => siblings.wanted.length)),
      'accepted messages lost': sum(seen.map(({ accepted, kept }) => accepted - kept)),
      'accepted messages in all': sum(seen.map(({ accepted }) => accepted)),
      unsettled: seen.filter(({ told }) => told.length === 0).length,
      'settled twice': seen.filter(({ told }) => told.length > 1).length,
      'faults with something left open': seen.filter(({ left }) => Object.keys(left).length > 0)
        .length,
      'settle after it is seen, p99 ms': Math.round(
        sorted[Math.ceil(sorted.length * 0.99) - 1] ?? 0,
      ),
      'settle after it is seen, max ms': Math.round(sorted.at(-1) ?? 0),
      'dispose with an agent at fault, max ms': Math.round(Math.max(0, ...disposals)),
      'disposals of a ground beyond their bound': this.#slowEnds,
    };
  }

  /** Markdown, one row per kind in the order in which they were first seen. */
  table(): string {
    const lines = [
      '| kind | class | faults | moments | as expected | settle after seen, worst ms | probe, worst ms |',
      '| --- | --- | --- | --- | --- | --- | --- |',
    ];
    for (const [name, { faults, wrong, settleMs, probeMs, moments }] of this.#rows) {
      const cells = [name, kindOf(name).fault, faults, moments.size, faults - wrong];
      lines.push(`| ${[...cells, Math.round(settleMs), Math.round(probeMs)].join(' | ')} |`);
    }
    return lines.join('\n');
  }
}

/** One fault that was not contained, and what plays it alone again. */
export function failureText({ cell, number, wrong }: Outcome, seed: number): string {
  const { kind, moment, mode, depth, siblings } = cell;
  const again = `KIND=${kind} MOMENT=${moment} MODE=${mode} DEPTH=${depth} SIBLINGS=${siblings} FAULTS=3 SEED=${seed} npm run test:faults`;
  return [`✗ ${number}: ${nameOf(cell)}`, ...wrong.map((one) => `    ${one}`), `    ${again}`].join(
    '\n',
  );
}
