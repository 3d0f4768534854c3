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
    if (!(error instanceof UsageError || error instanceof Refused)) throw error;
    streams.stderr.write(`subagents: ${cleanLine(error.message)}\n`);
    return error instanceof UsageError ? EXIT.usage : EXIT.failed;
  }
}
