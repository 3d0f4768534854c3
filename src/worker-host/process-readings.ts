/**
 * What can be read of this process, of its threads and of its machine, from outside of them. A
 * reading may be impossible here (no `/proc`), or just now (no descriptor is left): then it is
 * `undefined`, and whoever asked decides by what it knew before. Nothing here throws.
 */
import { readFileSync, readdirSync } from 'node:fs';
import { freemem, totalmem } from 'node:os';
import { getHeapStatistics } from 'node:v8';

/** What one thread, or all together, have used so far. */
export interface ThreadUse {
  readonly cpuMs: number;
  /** Pages that were given to this thread, or shared with it, without a read from a disk. */
  readonly minorFaults: number;
}

/** How much there is of something, and how much this process has of it. */
export interface Stock {
  readonly used: number;
  readonly most: number;
}

export interface ProcessReadings {
  /** Memory of the whole process that is in use now. */
  rssBytes(): number | undefined;
  /** Of that, what the engine has for the thread that asks: its heap, and what hangs on it. */
  ownBytes(): number;
  readonly pageBytes: number;
  /** What this thread used, by what the system calls it. */
  thread(tid: number): ThreadUse | undefined;
  /** What all threads used, those that are gone included. */
  process(): ThreadUse | undefined;
  /** What the first thread used: the one that programs call main. */
  main(): ThreadUse | undefined;
  /** What the threads used that the engine has for the work of all: collecting, compiling. */
  helpers(): ThreadUse | undefined;
  /** For how long main's loop has been busy so far: stands in for what the system does not tell. */
  mainBusyMs(): number;
  /** Memory that this process may have: that of the machine, or of its control group. */
  memoryBytes(): number;
  /** Memory of the machine that nobody uses now. */
  freeBytes(): number;
  /** Memory maps, of which every thread has many. Slow: some microseconds for each map. */
  maps(): Stock | undefined;
  descriptors(): Stock | undefined;
}

/** The unit of times in `/proc`: hundredths of a second, on every system that Node runs on. */
const TICK_MS = 10;
const MINOR_FAULTS = 7;
const USER_TIME = 11;
const SYSTEM_TIME = 12;
const STARTED_AT = 19;
const USUAL_PAGE_BYTES = 4_096;
/** Of the engine's helpers, unless a flag says otherwise. */
const POOL_SIZE = 4;

export const processReadings: ProcessReadings = {
  rssBytes: () => reading(residentBytes) ?? reading(() => process.memoryUsage.rss()),
  ownBytes() {
    const { total_heap_size: heap, external_memory, malloced_memory } = getHeapStatistics();
    return heap + external_memory + malloced_memory;
  },
  get pageBytes() {
    return (pageBytes ??= reading(measuredPage) ?? USUAL_PAGE_BYTES);
  },
  thread: (tid) => reading(() => used(text(`/proc/self/task/${tid}/stat`))),
  process: () => reading(() => used(text('/proc/self/stat'))),
  main: () => processReadings.thread(process.pid),
  helpers: () =>
    reading(() => {
      helperTids ??= engineHelpers();
      const uses = helperTids.map((tid) => processReadings.thread(tid));
      return uses.every((use) => use !== undefined) ? sum(uses) : undefined;
    }),
  mainBusyMs: () => performance.eventLoopUtilization().active,
  memoryBytes() {
    // 0, or more than there is: nothing bounds this process but the machine.
    const allowed = reading(() => process.constrainedMemory()) ?? 0;
    return allowed > 0 ? Math.min(allowed, totalmem()) : totalmem();
  },
  freeBytes: () => freemem(),
  maps: () =>
    reading(() => ({
      used: lines(readFileSync('/proc/self/maps')),
      most: Number(text('/proc/sys/vm/max_map_count')),
    })),
  descriptors: () =>
    reading(() => {
      const [, most] = /^Max open files\s+(\d+)/m.exec(text('/proc/self/limits')) ?? [];
      if (most === undefined) return undefined;
      return { used: readdirSync('/proc/self/fd').length, most: Number(most) };
    }),
};

/** The name of the thread may hold anything, so what counts begins behind it. */
const fieldsOf = (line: string): readonly string[] =>
  line.slice(line.lastIndexOf(')') + 2).split(' ');

const text = (path: string): string => readFileSync(path, 'latin1');

let pageBytes: number | undefined;

const residentPages = (): number => Number(text('/proc/self/statm').split(' ')[1]);
const measuredPage = (): number =>
  2 ** Math.round(Math.log2(process.memoryUsage.rss() / residentPages()));

/** As Node tells it, without going through all threads of the process for it. */
const residentBytes = (): number => residentPages() * processReadings.pageBytes;

let helperTids: readonly number[] | undefined;

/**
 * The engine's threads are made before anything of a program runs, and so before those of the pool
 * that files are read in: first the one that waits for timers of theirs, then as many as one flag
 * says. No name tells them apart in Node 20.
 */
function engineHelpers(): readonly number[] {
  const flags = [...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(/\s+/)];
  const pools = flags.map((flag) => /^--v8[-_]pool[-_]size=(\d+)$/.exec(flag)?.[1]);
  const count = Number(pools.find((size) => size !== undefined) ?? POOL_SIZE);
  const born = readdirSync('/proc/self/task').map((name) => {
    const fields = fieldsOf(text(`/proc/self/task/${name}/stat`));
    return { tid: Number(name), startedAt: Number(fields[STARTED_AT]) };
  });
  return born
    .filter(({ tid }) => tid !== process.pid)
    .toSorted((a, b) => a.startedAt - b.startedAt || a.tid - b.tid)
    .map(({ tid }) => tid)
    .slice(1, 1 + count);
}

const sum = (uses: readonly ThreadUse[]): ThreadUse => ({
  cpuMs: uses.reduce((total, { cpuMs }) => total + cpuMs, 0),
  minorFaults: uses.reduce((total, { minorFaults }) => total + minorFaults, 0),
});

/** One line of `/proc/<pid>/stat`, or of that of one of its threads. */
function used(line: string): ThreadUse | undefined {
  const fields = fieldsOf(line);
  const cpuMs = (Number(fields[USER_TIME]) + Number(fields[SYSTEM_TIME])) * TICK_MS;
  const minorFaults = Number(fields[MINOR_FAULTS]);
  return Number.isFinite(cpuMs) && Number.isFinite(minorFaults)
    ? { cpuMs, minorFaults }
    : undefined;
}

function lines(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(10); at >= 0; at = bytes.indexOf(10, at + 1)) count++;
  return count;
}

function reading<T>(read: () => T | undefined): T | undefined {
  try {
    const value = read();
    return typeof value === 'number' && !Number.isFinite(value) ? undefined : value;
  } catch {
    return undefined;
  }
}
