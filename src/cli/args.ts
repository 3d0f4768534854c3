import { createRequire } from 'node:module';
import { Command, CommanderError, InvalidArgumentError } from 'commander';
import { UsageError } from './exit-codes.ts';

/** The command line as it was given; nothing of it is checked against the world yet. */
export interface RunArguments {
  readonly prompt: string;
  readonly taskFile?: string;
  readonly files?: readonly string[];
  readonly tools?: readonly string[];
  readonly outputSchema?: string;
  readonly model?: string;
  readonly baseUrl?: string;
  readonly apiKeyEnv?: string;
  readonly store?: string;
  readonly json?: true;
  readonly turnMs?: number;
  readonly memoryMb?: number | 'unlimited';
}

export interface DoctorArguments {
  readonly store: string;
  readonly json?: true;
}

/** What to do: run, check a store, or print a text (help, the version) and be done. */
export type ParsedLine =
  | { readonly kind: 'run'; readonly arguments: RunArguments }
  | { readonly kind: 'doctor'; readonly arguments: DoctorArguments }
  | { readonly kind: 'print'; readonly text: string };

/** @throws {UsageError} for a line that is not understood. */
export function parseLine(argv: readonly string[]): ParsedLine {
  let parsed: ParsedLine | undefined;
  let printed = '';
  const program = build(
    (line) => void (parsed = line),
    (text) => void (printed += text),
  );
  try {
    program.parse(argv.length === 0 ? ['--help'] : argv, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode !== 0) throw new UsageError(usageMessage(error), { cause: error });
  }
  return parsed ?? { kind: 'print', text: printed };
}

function build(onLine: (line: ParsedLine) => void, print: (text: string) => void): Command {
  const { version } = createRequire(import.meta.url)('subagent-runtime/package.json') as {
    version: string;
  };
  const program = new Command('subagents')
    .description('Run an agent that may delegate to child agents, each in a thread of its own.')
    .version(version)
    .exitOverride()
    .configureOutput({ writeOut: print, writeErr: () => {} });
  program
    .command('run')
    .description('Give a task to a root agent and print its answer.')
    .argument('[prompt...]', 'the task (put it before --files, or after --)')
    .option('--task-file <path>', 'read the task from a file')
    .option(
      '--files <glob...>',
      'files the agents may list and read; "!glob" leaves files out, and node_modules is left ' +
        'out unless named',
    )
    .option('--tools <module...>', "ES modules with more tools, loaded in each agent's thread")
    .option('--output-schema <path>', 'JSON Schema that the result of every child must satisfy')
    .option('--base-url <url>', 'an OpenAI-compatible server, e.g. http://127.0.0.1:8080/v1')
    .option('--model <name>', 'a model of that server')
    .option('--api-key-env <name>', 'environment variable that holds the API key')
    .option('--store <file>', 'SQLite file that keeps the sessions (default: they are not kept)')
    .option('--turn-ms <ms>', 'time limit of each turn of a child', positiveInteger)
    .option('--memory-mb <mb>', `heap limit of each agent's thread, or "unlimited"`, memoryLimit)
    .option('--json', 'print every event as one line of JSON on stdout')
    .addHelpText('after', EXIT_CODES)
    .action((prompt: readonly string[], options: Omit<RunArguments, 'prompt'>) =>
      onLine({ kind: 'run', arguments: { prompt: prompt.join(' ').trim(), ...options } }),
    );
  program
    .command('doctor')
    .description('Check a file of sessions, and say what is wrong with it. Changes nothing.')
    .argument('<store>', 'an SQLite file that sessions are kept in; it may be in use')
    .option('--json', 'print every finding as one line of JSON')
    .addHelpText('after', DOCTOR_CODES)
    .action((store: string, options: Omit<DoctorArguments, 'store'>) =>
      onLine({ kind: 'doctor', arguments: { store, ...options } }),
    );
  return program;
}

const EXIT_CODES = `
Without --model the embedded scripted model is used: no key, no network, no language model.

Exit codes: 0 completed; 1 the root's turn failed; 2 bad input, nothing was run;
3 completed, but some delegations failed; 130 Ctrl-C; 143 SIGTERM.
A stdout that is closed early ends the run, quietly and with 0.`;

const DOCTOR_CODES = `
Exit codes: 0 nothing is wrong; 1 there are errors; 2 bad input, or no store.`;

function positiveInteger(text: string): number {
  if (isPositiveInteger(text)) return Number(text);
  throw new InvalidArgumentError('It has to be a whole number above 0.');
}

function memoryLimit(text: string): number | 'unlimited' {
  if (text === 'unlimited') return text;
  if (isPositiveInteger(text)) return Number(text);
  throw new InvalidArgumentError('It has to be a whole number above 0, or "unlimited".');
}

const isPositiveInteger = (text: string): boolean =>
  /^\d+$/u.test(text) && Number(text) > 0 && Number.isSafeInteger(Number(text));

function usageMessage(error: CommanderError): string {
  const text = error.message
    .replace(/^error: /u, '')
    .split('\n')
    .join(' ')
    .trim();
  return `${text}${/[.?)]$/u.test(text) ? '' : '.'} See "subagents --help".`;
}
