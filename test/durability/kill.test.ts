import { describe, expect, it } from 'vitest';
import { Life } from './life.ts';
import type { LifeReport } from './life.ts';
import { prepareVictims } from './victim.ts';

/**
 * `KILLS=1000 npm run test:kill` kills more often and says what it saw; `SEED=17` lives that one
 * life again, and `LIVES` says how many of them there are at a time. A life is some kills in a row.
 */
const { KILLS, SEED, LIVES = '2' } = process.env;
const COUNT = Number(KILLS ?? '12');
/** Lives that went wrong, after which no other is begun. */
const MOST_FAILED = 3;
const KILLS_PER_LIFE = [4, 2, 6, 3, 9];

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
      if (KILLS !== undefined && report.problems.length > 0) console.log(wordsOf(report));
      if (reports.filter(({ problems }) => problems.length > 0).length >= MOST_FAILED) left = 0;
      if (KILLS !== undefined && reports.length % 20 === 0) console.log(figures(reports));
    }
  };
  await Promise.all(Array.from({ length: SEED === undefined ? Number(LIVES) : 1 }, lives));
  return reports;
}

function figures(reports: readonly LifeReport[]): string {
  const phases = new Map<string, { planned: number; hit: number }>();
  const rowOf = (phase: string): { planned: number; hit: number } => {
    const row = phases.get(phase) ?? { planned: 0, hit: 0 };
    phases.set(phase, row);
    return row;
  };
  for (const { planned, hit } of reports.flatMap(({ kills }) => kills)) {
    rowOf(planned).planned++;
    rowOf(hit).hit++;
  }
  const sum = (read: (report: LifeReport) => number): number =>
    reports.reduce((total, report) => total + read(report), 0);
  const rows = [...phases]
    .toSorted(([one], [other]) => one.localeCompare(other))
    .map(([phase, { planned, hit }]) => `  ${phase.padEnd(18)} ${hit} hit of ${planned} meant`);
  return [
    `${sum(({ kills }) => kills.length)} kills in ${reports.length} lives, ` +
      `${Math.round(performance.now() / 1000)} s`,
    ...rows,
    `  ids returned: ${sum(({ fates }) => fates.told)} in turns, ` +
      `${sum(({ fates }) => fates.waiting)} pending, ${sum(({ fates }) => fates.discarded)} discarded, ` +
      `${sum(({ fates }) => fates.spent)} in turns that were stopped before their first step`,
    `  calls without an answer: ${sum(({ unanswered }) => unanswered)}`,
    `  reports whose id was returned: ${sum(({ reports }) => reports.returned)}, ` +
      `and read: ${sum(({ reports }) => reports.read)}`,
    `  tools of unknown outcome: ${sum(({ unknownTools }) => unknownTools)}`,
    `  idle resumes: ${sum(({ idleResumes }) => idleResumes)}`,
    `  lives with a fault: ${reports.filter(({ problems }) => problems.length > 0).length}`,
  ].join('\n');
}

const wordsOf = ({ seed, kills, folder, problems }: LifeReport): string =>
  `SEED=${seed} KILLS=${kills.length} (${kills.map(({ hit }) => hit).join(', ')}), ` +
  `kept in ${folder}:\n${problems.join('\n')}`;

describe('a process that is killed', () => {
  it(
    'keeps what it accepted, runs nothing twice and goes on where it was',
    async () => {
      prepareVictims();
      const reports = await killed(COUNT);
      if (KILLS !== undefined) console.log(figures(reports));
      const failed = reports.filter(({ problems }) => problems.length > 0);
      expect(failed.map(wordsOf).join('\n')).toBe('');
    },
    600_000 + COUNT * 20_000,
  );
});
