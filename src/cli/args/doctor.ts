import type { Command } from 'commander';
import type { StoreArguments } from './options.ts';
import { STORE } from './options.ts';

export type DoctorArguments = StoreArguments;

export function declareDoctor(program: Command, take: (given: DoctorArguments) => void): void {
  program
    .command('doctor')
    .description('Check a file of sessions, and say what is wrong with it. Changes nothing.')
    .argument('<store>', STORE)
    .option('--json', 'print every finding as one line of JSON')
    .addHelpText('after', HELP)
    .action((store: string, options: Omit<DoctorArguments, 'store'>) =>
      take({ store, ...options }),
    );
}

const HELP = `
Examples:
  subagents doctor runs.db
  subagents doctor runs.db --json

Exit codes: 0 nothing is wrong; 1 there are errors; 2 bad input, or no store.`;
