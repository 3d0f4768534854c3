/**
 * What can be read of this process and of its threads, from outside of them. A reading may be
 * impossible here (no `/proc`), or just now (no descriptor is left): then it is `undefined`, and
 * whoever asked decides by what it knew before. Nothing here throws.
 */
import { readFileSync } from 'node:fs';

/** What one thread has used so far. */
export interface ThreadUse {
  readonly cpuMs: number;
  /** Pages that were given to this thread, or shared with it, without a read from a disk. */
  readonly minorFaults: number;
}

export interface ProcessReadings {
  /** Memory of the whole process that is in use now. */
  rssBytes(): number | undefined;
  /** What this thread used, by what the system calls it. */
  thread(tid: number): ThreadUse | undefined;
}

/** The unit of times in `/proc`: hundredths of a second, on every system that Node runs on. */
const TICK_MS = 10;
const MINOR_FAULTS = 7;
const USER_TIME = 11;
const SYSTEM_TIME = 12;

export const processReadings: ProcessReadings = {
  rssBytes: () => reading(() => process.memoryUsage.rss()),
  thread: (tid) => reading(() => threadUse(readFileSync(`/proc/self/task/${tid}/stat`, 'latin1'))),
};

/** One line of `/proc/<pid>/task/<tid>/stat`. */
function threadUse(line: string): ThreadUse | undefined {
  // The name of the thread may hold anything, so what counts begins behind it.
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
  const cpuMs = (Number(fields[USER_TIME]) + Number(fields[SYSTEM_TIME])) * TICK_MS;
  const minorFaults = Number(fields[MINOR_FAULTS]);
  return Number.isFinite(cpuMs) && Number.isFinite(minorFaults)
    ? { cpuMs, minorFaults }
    : undefined;
}

function reading<T>(read: () => T | undefined): T | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
