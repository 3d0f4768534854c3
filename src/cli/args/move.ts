/** The commands that move sessions and take them away: `export`, `import`, `rm`. */
import type { Command } from 'commander';
import { JSON_LINES, SESSION, STORE } from './options.ts';
import type { StoreArguments } from './options.ts';

export interface ExportArguments {
  readonly store: string;
  /** None: all. */
  readonly sessions: readonly string[];
}

export interface ImportArguments extends StoreArguments {
  /** `-`: stdin. */
  readonly file: string;
  readonly newIds?: true;
}

export interface RmArguments extends StoreArguments {
  readonly sessions: readonly string[];
}

export function declareExport(program: Command, take: (given: ExportArguments) => void): void {
  program
    .command('export')
    .description('Print sessions as lines of JSON: each that is named with all below it, or all.')
    .argument('<store>', STORE)
    .argument('[session...]', SESSION)
    .addHelpText('after', EXPORT_HELP)
    .action((store: string, sessions: readonly string[]) => take({ store, sessions }));
}

export function declareImport(program: Command, take: (given: ImportArguments) => void): void {
  program
    .command('import')
    .description('Take in what "export" printed: all of it, or nothing.')
    .argument('<store>', 'an SQLite file that keeps the sessions; it is made when there is none')
    .argument('<file>', 'the lines, or - for stdin')
    .option('--new-ids', 'give the sessions new ids')
    .option('--json', JSON_LINES)
    .addHelpText('after', IMPORT_HELP)
    .action((store: string, file: string, options: Omit<ImportArguments, 'store' | 'file'>) =>
      take({ store, file, ...options }),
    );
}

export function declareRm(program: Command, take: (given: RmArguments) => void): void {
  program
    .command('rm')
    .description('Remove sessions that nobody runs, each with all below it.')
    .argument('<store>', STORE)
    .argument('<session...>', SESSION)
    .option('--json', JSON_LINES)
    .addHelpText('after', RM_HELP)
    .action((store: string, sessions: readonly string[], options: { readonly json?: true }) =>
      take({ store, sessions, ...options }),
    );
}

const EXPORT_HELP = `
Examples:
  subagents export runs.db > all.jsonl
  subagents export runs.db 3f9c > one.jsonl

Exit codes: 0 exported; 1 some of it is damaged (the lines say what) or could not be read;
2 bad input, no store, or no such session; 130 Ctrl-C; 143 SIGTERM.`;

const IMPORT_HELP = `
Examples:
  subagents import runs.db all.jsonl
  subagents export old.db 3f9c | subagents import runs.db - --new-ids

Exit codes: 0 all is imported; 1 refused, nothing was imported; 2 bad input; 3 what the export
called damaged was left out; 130 Ctrl-C; 143 SIGTERM.`;

const RM_HELP = `
Examples:
  subagents rm runs.db 3f9c
  subagents rm runs.db 3f9c 77ab

Exit codes: 0 removed; 1 one of them is run by another process, or could not be removed;
2 bad input, no store, or no such session.`;
