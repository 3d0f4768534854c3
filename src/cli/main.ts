#!/usr/bin/env node
/** The process around the command: signals in, exit code out. */
import process from 'node:process';
import { runCommand } from './command.ts';
import { EXIT } from './exit-codes.ts';

const SIGNALS = { SIGINT: EXIT.interrupted, SIGTERM: EXIT.terminated } as const;
type StopSignal = keyof typeof SIGNALS;

const stop = new AbortController();
let stopped: StopSignal | undefined;

function onSignal(signal: StopSignal): void {
  if (stopped === undefined) {
    stopped = signal;
    stop.abort(new Error(`Stopped by ${signal}.`));
    return;
  }
  // Asked again: do not wait. Only a signal with its default action ends a process for certain,
  // since an exit waits for threads that cannot be ended.
  process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
  process.kill(process.pid, signal);
}

process.on('SIGINT', onSignal).on('SIGTERM', onSignal);
// Whoever read the output is gone: there is nobody to go on for.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  stop.abort(error);
});

try {
  process.exitCode = await runCommand(
    process.argv.slice(2),
    process,
    { cwd: process.cwd(), env: process.env },
    stop.signal,
  );
} catch (error) {
  if (!stop.signal.aborted) throw error;
  process.exitCode = stopped === undefined ? EXIT.failed : SIGNALS[stopped];
  if (stopped !== undefined) process.stderr.write('Stopped.\n');
} finally {
  process.off('SIGINT', onSignal).off('SIGTERM', onSignal);
}
