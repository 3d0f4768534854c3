import type { Command } from 'commander';
import { countOption } from './options.ts';

export interface BenchArguments {
  readonly children?: number;
  readonly json?: true;
}

export function declareBench(program: Command, take: (given: BenchArguments) => void): void {
  program
    .command('bench')
    .description(
      'Measure what delegation costs on this machine, with a model that answers at once.',
    )
    .addOption(countOption('--children <count>', 'children of each measurement (default: 20)'))
    .option('--json', 'print every figure as one line of JSON')
    .addHelpText('after', HELP)
    .action((options: BenchArguments) => take(options));
}

const HELP = `
Examples:
  subagents bench
  subagents bench --children 100 --json

Exit codes: 0 measured; 1 a child failed; 2 bad input; 130 Ctrl-C; 143 SIGTERM.`;
