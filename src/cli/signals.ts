/** What the process does about signals while a command runs. */
import { fstatSync } from 'node:fs';
import process from 'node:process';
import { reasonOf } from './checks.ts';
import { EXIT, Stopped } from './exit-codes.ts';
import { exitWhateverIsStuck } from './last-resort.ts';

const CODES = { SIGINT: EXIT.interrupted, SIGTERM: EXIT.terminated } as const;
type StopSignal = keyof typeof CODES;

/**
 * Run `command` and set the process's exit code to what it resolves with. The first SIGINT or
 * SIGTERM aborts its signal; it then has to let go of everything and reject. A second one ends
 * the process at once. An output that cannot be written aborts it too. A thread that cannot be
 * ended does not keep the process from its end.
 */
export async function runUnderSignals(
  command: (signal: AbortSignal) => Promise<number>,
): Promise<void> {
  exitWhateverIsStuck();
  const stop = new AbortController();
  let lost: Error | undefined;
  const onSignal = (signal: StopSignal): void => {
    if (!stop.signal.aborted) {
      stop.abort(new Stopped(`Stopped by ${signal}.`, CODES[signal]));
      return;
    }
    // Only a signal with its default action ends a process for certain: an exit waits for
    // threads, and a thread inside a system call cannot be ended.
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    process.kill(process.pid, signal);
  };
  // Whoever read the answer is gone: there is nobody to go on for.
  const onOutputError = (error: NodeJS.ErrnoException): void => {
    if (error.code === 'EPIPE') {
      stop.abort(new Stopped('Nobody reads the output.', EXIT.unread, { cause: error }));
      return;
    }
    if (lost !== undefined) return;
    lost = error;
    // Told of it as late as that, the command may be done.
    process.exitCode = EXIT.failed;
    process.stderr.write(`subagents: Cannot write the output: ${reasonOf(error)}.\n`);
    stop.abort(new Stopped('The output is lost.', EXIT.failed, { cause: error }));
  };
  // Progress that nobody reads is no reason to lose the answer.
  const onProgressError = (error: NodeJS.ErrnoException): void => {
    if (isOneFile(1, 2)) onOutputError(error);
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  process.stdout.on('error', onOutputError);
  process.stderr.on('error', onProgressError);
  try {
    const exitCode = await command(stop.signal);
    process.exitCode = lost === undefined ? exitCode : EXIT.failed;
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    const { exitCode } = stop.signal.reason as Stopped;
    process.exitCode = exitCode;
    if (exitCode !== EXIT.unread && lost === undefined) process.stderr.write('Stopped.\n');
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}

/** True when both descriptors lead to the same pipe or file, as after `2>&1`. */
function isOneFile(one: number, other: number): boolean {
  const [a, b] = [fstatSync(one), fstatSync(other)];
  return a.dev === b.dev && a.ino === b.ino;
}
