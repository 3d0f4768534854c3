/** The commands that look at sessions and change nothing: `ls`, `show`. */
import type { Command } from 'commander';
import { JSON_LINES, SESSION, STORE, wholeNumber } from './options.ts';
import type { SessionArguments, StoreArguments } from './options.ts';

export interface LsArguments extends StoreArguments {
  /** Only this one and what is below it. */
  readonly session?: string;
  readonly watch?: true;
  readonly all?: true;
}

export interface ShowArguments extends SessionArguments {
  readonly follow?: true;
  readonly from?: number;
}

export function declareLs(program: Command, take: (given: LsArguments) => void): void {
  program
    .command('ls')
    .description('List the sessions of a store as a tree: what runs now, and what is kept.')
    .argument('<store>', STORE)
    .argument('[session]', `only this one and what is below it: ${SESSION}`)
    .option('--watch', 'stay, and draw what happens as it is told, until nothing runs any more')
    .option('--all', 'fold nothing, however long it is (a pipe gets all in any case)')
    .option('--json', JSON_LINES)
    .addHelpText('after', LS_HELP)
    .action((store: string, session: string | undefined, options: Omit<LsArguments, 'store'>) =>
      take({ store, ...(session === undefined ? {} : { session }), ...options }),
    );
}

export function declareShow(program: Command, take: (given: ShowArguments) => void): void {
  program
    .command('show')
    .description('Print the conversation of one session.')
    .argument('<store>', STORE)
    .argument('<session>', SESSION)
    .option('--follow', 'stay, and print what is added, until whoever runs it is gone')
    .option('--from <event>', 'begin with the event of this number', wholeNumber)
    .option('--json', 'print every event of its log as one line of JSON')
    .addHelpText('after', SHOW_HELP)
    .action(
      (store: string, session: string, options: Omit<ShowArguments, keyof SessionArguments>) =>
        take({ store, session, ...options }),
    );
}

const LS_HELP = `
Examples:
  subagents ls runs.db
  subagents ls runs.db 3f9c --watch
  subagents ls runs.db --json

Exit codes: 0 listed; 2 bad input, no store, or no such session; 130 Ctrl-C; 143 SIGTERM.`;

const SHOW_HELP = `
Examples:
  subagents show runs.db 3f9c
  subagents show runs.db 3f9c --follow
  subagents show runs.db 3f9c --json --from 120

Exit codes: 0 shown; 1 the log cannot be read; 2 bad input, no store, or no such session;
130 Ctrl-C; 143 SIGTERM.`;
