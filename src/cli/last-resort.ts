/**
 * The end of a process with a thread that cannot be ended, as one whose native code does not
 * return: an exit waits for its threads, and so for ever.
 */
import { writeSync } from 'node:fs';
import process from 'node:process';
import type { Harness } from '../index.ts';

let stuck = 0;

/** Count those of this harness. Also after it is disposed: one may end after all. */
export function mindStuckThreads(harness: Pick<Harness, 'on'>): void {
  harness.on('thread/stuck', () => void (stuck += 1));
  harness.on('thread/unstuck', () => void (stuck -= 1));
}

/**
 * From now on an exit of this process that would wait for such a thread ends it with SIGKILL
 * instead. What was written is out by then: nothing is left to do for a process that exits.
 */
export function exitWhateverIsStuck(): void {
  process.once('exit', (exitCode) => {
    if (stuck === 0) return;
    const count = stuck === 1 ? 'A thread' : `${stuck} threads`;
    try {
      const text = `${count} cannot be ended, so the process is (SIGKILL). It was to exit with`;
      writeSync(2, `subagents: ${text} ${exitCode}.\n`);
    } catch {
      // Nobody reads it.
    }
    process.kill(process.pid, 'SIGKILL');
  });
}
