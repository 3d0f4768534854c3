/** The command without its process: from arguments and streams to an exit code. */
import { parseLine } from './args.ts';
import type { LineMap, Verb } from './args.ts';
import type { Call, CarryOut, Streams } from './call.ts';
import { EXIT, Refused, UsageError } from './exit-codes.ts';
import type { Surroundings } from './input.ts';
import { cleanLine } from './text.ts';

/** What carries out each command, loaded when it is asked for. */
const VERBS: { readonly [V in Verb]: () => Promise<CarryOut<LineMap[V]>> } = {
  run: async () => (await import('./verbs/run.ts')).runVerb,
  ls: async () => (await import('./verbs/ls.ts')).lsVerb,
  show: async () => (await import('./verbs/show.ts')).showVerb,
  send: async () => (await import('./verbs/send.ts')).sendVerb,
  interrupt: async () => (await import('./verbs/act.ts')).interruptVerb,
  drain: async () => (await import('./verbs/act.ts')).drainVerb,
  serve: async () => (await import('./verbs/serve.ts')).serveVerb,
  export: async () => (await import('./verbs/export.ts')).exportVerb,
  import: async () => (await import('./verbs/import.ts')).importVerb,
  rm: async () => (await import('./verbs/rm.ts')).rmVerb,
  bench: async () => (await import('./verbs/bench.ts')).benchVerb,
  doctor: async () => (await import('./verbs/doctor.ts')).examine,
};

/**
 * Carry out one command line. `signal` stops it; then this rejects with the signal's reason,
 * once everything it had begun is let go.
 */
export async function runCommand(
  argv: readonly string[],
  streams: Streams,
  surroundings: Surroundings,
  signal: AbortSignal,
): Promise<number> {
  try {
    const line = parseLine(argv);
    if (line.kind === 'print') {
      streams.stdout.write(line.text);
      return EXIT.completed;
    }
    const carryOut = (await VERBS[line.kind]()) as CarryOut<LineMap[Verb]>;
    return await carryOut(line.arguments, { streams, surroundings, signal } satisfies Call);
  } catch (error) {
    signal.throwIfAborted();
    const told = await tellable(error);
    streams.stderr.write(`subagents: ${cleanLine(told.message)}\n`);
    return told instanceof UsageError ? EXIT.usage : EXIT.failed;
  }
}

/** What a command ended with, in its words or in the library's. @throws a defect, as it is. */
async function tellable(error: unknown): Promise<Error> {
  // What failed first says more than what failed while it was let go of.
  if (error instanceof Error && error.name === 'SuppressedError') {
    return tellable((error as SuppressedError).suppressed);
  }
  if (error instanceof UsageError || error instanceof Refused) return error;
  const { HarnessError } = await import('../index.ts');
  if (!(error instanceof HarnessError)) throw error;
  const hint = HINTS[error.code];
  return hint === undefined ? error : new Refused(`${error.message} ${hint}`, { cause: error });
}

/** What to do about what the library refuses. */
const HINTS: Readonly<Record<string, string>> = {
  SESSION_OWNED_ELSEWHERE: 'Stop that process first.',
};
