import { describe, expect, it } from 'vitest';
import { Life } from './life.ts';
import type { LifeReport } from './life.ts';

/**
 * `KILLS=1000 npm run test:kill` kills more often; `SEED=17` lives that one life again, and
 * `LIVES` says how many of them there are at a time. Some 3 kills in a row are one life.
 */
const { KILLS = '12', SEED, LIVES = '2' } = process.env;
const IS_LONG = Number(KILLS) > 12;
/** Lives that went wrong, after which no other is begun. */
const MOST_FAILED = 3;
const KILLS_PER_LIFE = [1, 2, 3, 4, 6];

async function killed(kills: number): Promise<readonly LifeReport[]> {
  const reports: LifeReport[] = [];
  let left = kills;
  let seed = SEED === undefined ? 1 : Number(SEED);
  const lives = async (): Promise<void> => {
    while (left > 0) {
      const own = seed++;
      const count = Math.min(left, KILLS_PER_LIFE[own % KILLS_PER_LIFE.length] ?? 1);
      left -= count;
      const report = await new Life(own).run(count);
      reports.push(report);
      if (reports.filter(({ problems }) => problems.length > 0).length >= MOST_FAILED) left = 0;
      if (IS_LONG && reports.length % 20 === 0) console.log(figures(reports));
    }
  };
  await Promise.all(Array.from({ length: SEED === undefined ? Number(LIVES) : 1 }, lives));
  return reports;
}

function figures(reports: readonly LifeReport[]): string {
  const phases = new Map<string, number>();
  for (const phase of reports.flatMap(({ kills }) => kills)) {
    phases.set(phase, (phases.get(phase) ?? 0) + 1);
  }
  const sum = (read: (report: LifeReport) => number): number =>
    reports.reduce((total, report) => total + read(report), 0);
  return [
    `${sum(({ kills }) => kills.length)} kills in ${reports.length} lives`,
    [...phases].map(([phase, count]) => `${phase} ${count}`).join(', '),
    `${sum(({ fates }) => fates.told)} told, ${sum(({ fates }) => fates.waiting)} waiting, ` +
      `${sum(({ fates }) => fates.discarded)} discarded`,
    `${sum(({ unanswered }) => unanswered)} calls without an answer`,
    `${sum(({ unknownTools }) => unknownTools)} tools of unknown outcome`,
  ].join('; ');
}

describe('a process that is killed', () => {
  it(
    'keeps what it accepted, runs nothing twice and goes on where it was',
    async () => {
      const reports = await killed(Number(KILLS));
      if (IS_LONG) console.log(figures(reports));
      const failed = reports.filter(({ problems }) => problems.length > 0);
      const words = failed.map(
        ({ seed, kills, folder, problems }) =>
          `SEED=${seed} KILLS=${kills.length} (${kills.join(', ')}), kept in ${folder}:\n` +
          problems.join('\n'),
      );
      expect(words.join('\n')).toBe('');
    },
    60_000 + Number(KILLS) * 10_000,
  );
});
