/** What the process does about signals while a command runs. */
import process from 'node:process';
import { EXIT } from './exit-codes.ts';

const CODES = { SIGINT: EXIT.interrupted, SIGTERM: EXIT.terminated } as const;
type StopSignal = keyof typeof CODES;

/**
 * Run `command` and set the process's exit code to what it resolves with. The first SIGINT or
 * SIGTERM aborts its signal; it then has to let go of everything and reject. A second one ends
 * the process at once.
 */
export async function runUnderSignals(
  command: (signal: AbortSignal) => Promise<number>,
): Promise<void> {
  const stop = new AbortController();
  let stopped: StopSignal | undefined;
  const onSignal = (signal: StopSignal): void => {
    if (stopped === undefined) {
      stopped = signal;
      stop.abort(new Error(`Stopped by ${signal}.`));
      return;
    }
    // Only a signal with its default action ends a process for certain: an exit waits for
    // threads, and a thread inside a system call cannot be ended.
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
    process.kill(process.pid, signal);
  };
  // Whoever read the output is gone: there is nobody to go on for.
  const onOutputError = (error: NodeJS.ErrnoException): void => {
    if (error.code !== 'EPIPE') throw error;
    stop.abort(error);
  };
  process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
  process.stdout.on('error', onOutputError);
  process.stderr.on('error', onOutputError);
  try {
    process.exitCode = await command(stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    process.exitCode = stopped === undefined ? EXIT.failed : CODES[stopped];
    if (stopped !== undefined) process.stderr.write('Stopped.\n');
  } finally {
    process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  }
}
