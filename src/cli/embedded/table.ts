import type { FileSummary } from './summary.ts';

/** A delegation that gave no summary. */
export interface FailedDelegation {
  readonly name: string;
  readonly reason: string;
}

type Row = readonly [file: string, headings: string, exports: string, lines: string];

/** One row per file, the totals, and the failures by name. */
export function summaryTable(
  summaries: readonly FileSummary[],
  failures: readonly FailedDelegation[],
): string {
  const sum = (count: (summary: FileSummary) => number): string =>
    String(summaries.reduce((total, summary) => total + count(summary), 0));
  const rows: readonly Row[] = summaries.map((summary) => [
    summary.file,
    String(summary.headings.length),
    String(summary.exports.length),
    String(summary.lines),
  ]);
  const total: Row = [
    `total of ${counted(summaries.length, 'file')}`,
    sum((summary) => summary.headings.length),
    sum((summary) => summary.exports.length),
    sum((summary) => summary.lines),
  ];
  const head: Row = ['file', 'headings', 'exports', 'lines'];
  const widths = head.map((_, column) =>
    Math.max(...[head, ...rows, total].map((row) => row[column]?.length ?? 0)),
  );
  const line = (row: Row): string =>
    row
      .map((cell, column) =>
        column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
      )
      .join('  ');
  const rule = widths.map((width) => '-'.repeat(width)).join('  ');
  const table = [line(head), rule, ...rows.map(line), rule, line(total)];
  if (failures.length === 0) return table.join('\n');
  return [
    ...table,
    '',
    `${counted(failures.length, 'delegation')} failed:`,
    ...failures.map(({ name, reason }) => `- ${name}: ${reason}`),
  ].join('\n');
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
