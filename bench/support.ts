/** What every bench shares: interleaved rounds, ratios with their spread, and the report. */
import { availableParallelism, cpus } from 'node:os';

export interface Contender {
  readonly name: string;
  /** One measurement, in the unit of the bench. Leaves nothing behind. */
  measure(): Promise<number>;
}

export interface Row {
  readonly bench: string;
  readonly contender: string;
  readonly unit: string;
  readonly median: number;
  readonly p10: number;
  readonly p90: number;
  /** Median of the ratios to the baseline, round by round, and their 10th and 90th percentile. */
  readonly ratio: number;
  readonly ratioP10: number;
  readonly ratioP90: number;
  readonly rounds: number;
}

export interface BenchOptions {
  readonly name: string;
  readonly unit: string;
  readonly rounds: number;
  readonly warmup: number;
  /** The first is the baseline; it is measured twice a round, and the second time is the noise. */
  readonly contenders: readonly Contender[];
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const place = Math.min(sorted.length - 1, Math.max(0, Math.round(share * (sorted.length - 1))));
  return sorted[place] ?? Number.NaN;
}

/**
 * Measure all contenders once a round, A B C A B C …, so that what the machine does meanwhile
 * falls on all of them. Every second round runs in the opposite order.
 */
export async function rounds(options: BenchOptions): Promise<Row[]> {
  const [baseline] = options.contenders;
  if (baseline === undefined) throw new Error('A bench needs a baseline.');
  const control: Contender = { ...baseline, name: `${baseline.name} (again: the noise)` };
  const contenders = [...options.contenders, control];
  const times = new Map(contenders.map((one) => [one, [] as number[]]));
  for (let round = -options.warmup; round < options.rounds; round++) {
    for (const one of round % 2 === 0 ? contenders : contenders.toReversed()) {
      const value = await one.measure();
      if (round >= 0) times.get(one)?.push(value);
    }
    process.stderr.write(`\r${options.name}: ${Math.max(0, round + 1)}/${options.rounds} `);
  }
  process.stderr.write('\n');
  const base = times.get(baseline) ?? [];
  return contenders.map((one) => {
    const own = times.get(one) ?? [];
    const ratios = own.map((value, round) => value / (base[round] ?? Number.NaN));
    return {
      bench: options.name,
      contender: one.name,
      unit: options.unit,
      median: percentile(own, 0.5),
      p10: percentile(own, 0.1),
      p90: percentile(own, 0.9),
      ratio: percentile(ratios, 0.5),
      ratioP10: percentile(ratios, 0.1),
      ratioP90: percentile(ratios, 0.9),
      rounds: own.length,
    };
  });
}

/** A Markdown table, as it goes into the README; with `--json` one line of JSON per row. */
export function report(rows: readonly Row[]): void {
  if (process.argv.includes('--json')) {
    for (const row of rows) console.log(JSON.stringify(row));
    return;
  }
  const [first] = rows;
  if (first === undefined) return;
  const fixed = (value: number): string => (value < 10 ? value.toFixed(2) : value.toFixed(1));
  console.log(`\n${first.bench}, ${first.rounds} rounds, ${machine()}\n`);
  console.log(`| contender | ${first.unit}: median (p10 to p90) | against the first |`);
  console.log('| --- | --- | --- |');
  for (const row of rows) {
    console.log(
      `| ${row.contender} | ${fixed(row.median)} (${fixed(row.p10)} to ${fixed(row.p90)}) ` +
        `| ${fixed(row.ratio)} × (${fixed(row.ratioP10)} to ${fixed(row.ratioP90)}) |`,
    );
  }
}

export function machine(): string {
  const model = cpus()[0]?.model.trim() ?? 'unknown processor';
  const day = new Date().toISOString().slice(0, 10);
  return `Node ${process.version}, ${availableParallelism()} cores of ${model}, ${day}`;
}
