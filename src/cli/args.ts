import { createRequire } from 'node:module';
import { Command, CommanderError } from 'commander';
import { declareDrain, declareInterrupt, declareSend } from './args/act.ts';
import type { SendArguments } from './args/act.ts';
import { declareBench } from './args/bench.ts';
import type { BenchArguments } from './args/bench.ts';
import { declareDoctor } from './args/doctor.ts';
import type { DoctorArguments } from './args/doctor.ts';
import { declareLs, declareShow } from './args/look.ts';
import type { LsArguments, ShowArguments } from './args/look.ts';
import { declareExport, declareImport, declareRm } from './args/move.ts';
import type { ExportArguments, ImportArguments, RmArguments } from './args/move.ts';
import type { SessionArguments } from './args/options.ts';
import { declareRun } from './args/run.ts';
import type { RunArguments } from './args/run.ts';
import { declareServe } from './args/serve.ts';
import type { ServeArguments } from './args/serve.ts';
import { UsageError } from './exit-codes.ts';

/** What each command takes. */
export interface LineMap {
  run: RunArguments;
  ls: LsArguments;
  show: ShowArguments;
  send: SendArguments;
  interrupt: SessionArguments;
  drain: SessionArguments;
  export: ExportArguments;
  import: ImportArguments;
  rm: RmArguments;
  doctor: DoctorArguments;
  bench: BenchArguments;
  serve: ServeArguments;
}
export type Verb = keyof LineMap;

/** What to do: carry out a command, or print a text (help, the version) and be done. */
export type ParsedLine =
  | { readonly [V in Verb]: { readonly kind: V; readonly arguments: LineMap[V] } }[Verb]
  | { readonly kind: 'print'; readonly text: string };

/** In the order in which the help lists them. */
const DECLARATIONS: {
  readonly [V in Verb]: (program: Command, take: (given: LineMap[V]) => void) => void;
} = {
  run: declareRun,
  ls: declareLs,
  show: declareShow,
  send: declareSend,
  interrupt: declareInterrupt,
  drain: declareDrain,
  export: declareExport,
  import: declareImport,
  rm: declareRm,
  doctor: declareDoctor,
  bench: declareBench,
  serve: declareServe,
};

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
    if (error.exitCode !== 0) throw new UsageError(usageMessage(error, argv), { cause: error });
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
    .configureOutput({ writeOut: print, writeErr: () => {} })
    .addHelpText('after', HELP);
  for (const [kind, declare] of Object.entries(DECLARATIONS)) {
    declare(program, (given: unknown) => onLine({ kind, arguments: given } as ParsedLine));
  }
  return program;
}

const HELP = `
Examples:
  subagents run 'Summarise the files.' --files '*.md' --store runs.db
  subagents ls runs.db
  subagents help send

Every command says with --help what it ends with.`;

function usageMessage(error: CommanderError, [verb = '']: readonly string[]): string {
  const text = error.message
    .replace(/^error: /u, '')
    .split('\n')
    .join(' ')
    .trim();
  const help = Object.hasOwn(DECLARATIONS, verb) ? `subagents ${verb} --help` : 'subagents --help';
  return `${text}${/[.?)]$/u.test(text) ? '' : '.'} See "${help}".`;
}
