/**
 * Ends threads that take more memory than they may have. The engine's own limit cannot: a single
 * large allocation beyond it aborts the whole process, and what lies outside the heap is not
 * counted at all. So that limit is set far above (`hardLimitMb`), and this looks at the process
 * from outside, several times as often as a thread can fill the space between: what it has grown
 * by belongs to the threads that were given its new pages (`MemoryShares`), and a thread with a
 * large share is asked what it has, which a loop that turns answers.
 *
 * It looks often while an agent works, seldom while all are idle, and not at all without threads.
 */
import { WorkerError } from '../../protocol/errors.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { elapsed } from '../base/clock.ts';
import type { Bound } from './limits.ts';
import { MemoryShares } from './memory-shares.ts';
import type { Deed } from './memory-shares.ts';
import type { ProcessReadings, ThreadUse } from './process-readings.ts';

/** A thread as its guard sees it. */
export interface GuardedThread {
  readonly memoryMb: Bound;
  /** What the system calls it. */
  readonly tid: number | undefined;
  /** For how long its loop has been busy so far. */
  busyMs(): number;
  /** Ask what it has. The answer comes when it comes, and is given once. */
  measure(): void;
  takeMeasure(): number | undefined;
  /** It has three quarters of what it may have. Told again when it had less than half since. */
  warn(bytes: number, limitBytes: number): void;
  kill(reason: HarnessError): void;
}

/** The guard's end of a thread, for whoever owns that. */
export interface Guarded {
  /** Its agent works, or does not any more. */
  working(isWorking: boolean): void;
  /** It is being ended. What it takes until it is gone is its own, and nobody waits for it. */
  ending(): void;
  gone(): void;
  /** Memory of the process that is this thread's, as far as anybody knows. */
  readonly bytes: number;
}

export interface MemoryGuardOptions {
  readonly clock: Clock;
  readonly readings: ProcessReadings;
}

interface Watch {
  readonly thread: GuardedThread;
  use: ThreadUse | undefined;
  busyMs: number;
  isWorking: boolean;
  /** It worked since it was last looked at. */
  isDue: boolean;
  endingAt: number | undefined;
  isWarned: boolean;
  askedAt: number;
}

/** Pages given so far to all threads, to main, and to the engine's helpers. */
interface Use {
  readonly all: number;
  readonly main: number | undefined;
  readonly helpers: number | undefined;
}

const MIB = 1024 * 1024;
/** Between two looks while an agent works. */
const LOOK_MS = 25;
/** Between two looks while all are idle. */
const IDLE_LOOK_MS = 250;
/** Looking takes at most one part in so many of main's time. */
const THRIFT = 20;
/** A change of the process below this is left for a later look to explain. */
const NOTABLE_BYTES = 8 * MIB;
/** Between two questions to one thread, and between two looks at those that are idle. */
const ASK_MS = 250;
const WIDE_MS = 1_000;
/** Until what a thread that is gone had is given back. */
const DEPARTED_MS = 2_000;
/** Until the next thread is ended because the process has too much. */
const RELIEF_MS = 3_000;
/** A thread that has less than this is nobody to end for the sake of the process. */
const BLAMED_BYTES = 64 * MIB;
/** From what a thread may have to its end: what the engine has not collected yet counts, too. */
const SLACK_MB = 64;
const MAX_GARBAGE_MB = 512;
/** From what a thread may have to the engine's limit: room for the largest single allocation. */
const HARD_MARGIN_MB = 1_536;
/** Of the memory that this process may have. */
const BUDGET_PERCENT = 85;

/** The engine's own limit for a thread that may have so much. */
export const hardLimitMb = (memoryMb: number): number => memoryMb + HARD_MARGIN_MB;

/**
 * Where a thread that may have so much is ended. An engine that is far from its own limit collects
 * late, and has about half as much again as what is used.
 */
export const endLimitMb = (memoryMb: number): number =>
  memoryMb + Math.min(memoryMb / 2, MAX_GARBAGE_MB) + SLACK_MB;

export class MemoryGuard {
  readonly #clock: Clock;
  readonly #readings: ProcessReadings;
  readonly #watches = new Set<Watch>();
  readonly #shares = new MemoryShares<Watch>();
  #rss: number | undefined;
  #use: Use | undefined;
  #mainBusyMs = 0;
  #wideAt = Number.NEGATIVE_INFINITY;
  #departedAt: number | undefined;
  #timer: Timer | undefined;
  #isTimerSlow = false;
  #mostLateMs = 0;

  constructor({ clock, readings }: MemoryGuardOptions) {
    this.#clock = clock;
    this.#readings = readings;
  }

  /** How late a look was at most. */
  get mostLateMs(): number {
    return this.#mostLateMs;
  }

  /** Bytes that this process may have before the greatest of its threads is ended. */
  get budgetBytes(): number {
    return Math.floor((this.#readings.memoryBytes() * BUDGET_PERCENT) / 100);
  }

  /** From its first sign of life until it is gone. */
  watch(thread: GuardedThread): Guarded {
    const watch: Watch = {
      thread,
      use: this.#useOf(thread),
      busyMs: thread.busyMs(),
      isWorking: false,
      isDue: true,
      endingAt: undefined,
      isWarned: false,
      askedAt: Number.NEGATIVE_INFINITY,
    };
    if (this.#watches.size === 0) this.#begin();
    this.#watches.add(watch);
    this.#shares.add(watch);
    this.#arm();
    const shares = this.#shares;
    return {
      working: (isWorking) => {
        watch.isWorking = isWorking;
        if (isWorking) watch.isDue = true;
        this.#arm();
      },
      ending: () => {
        watch.endingAt ??= elapsed(this.#clock);
        this.#arm();
      },
      gone: () => {
        if (!this.#watches.delete(watch)) return;
        shares.remove(watch);
        this.#departedAt = elapsed(this.#clock);
        this.#arm();
      },
      get bytes() {
        return shares.of(watch);
      },
    };
  }

  /** Nothing was looked at for a while, or ever: whatever came meanwhile is nobody's. */
  #begin(): void {
    this.#rss = this.#readings.rssBytes();
    this.#use = this.#readUse();
    this.#mainBusyMs = this.#readings.mainBusyMs();
  }

  #readUse(): Use | undefined {
    const readings = this.#readings;
    const [all, main, helpers] = [readings.process(), readings.main(), readings.helpers()];
    if (all === undefined) return undefined;
    return { all: all.minorFaults, main: main?.minorFaults, helpers: helpers?.minorFaults };
  }

  /** The next look, sooner or later as there is something to see. */
  #arm(spentMs = 0): void {
    const some = [...this.#watches].filter(({ endingAt }) => endingAt === undefined);
    const isSlow = !some.some(({ isWorking }) => isWorking);
    if (this.#timer !== undefined && some.length > 0 && (isSlow || !this.#isTimerSlow)) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    if (some.length === 0) return;
    this.#isTimerSlow = isSlow;
    const pauseMs = Math.max(isSlow ? IDLE_LOOK_MS : LOOK_MS, spentMs * THRIFT);
    const due = elapsed(this.#clock) + pauseMs;
    this.#timer = this.#clock.after(pauseMs, () => {
      this.#timer = undefined;
      const since = elapsed(this.#clock);
      this.#mostLateMs = Math.max(this.#mostLateMs, Math.round(since - due));
      this.#look(since);
      this.#arm(elapsed(this.#clock) - since);
    });
  }

  #look(now: number): void {
    const rss = this.#readings.rssBytes();
    // Nothing could be read: the next look explains both.
    if (rss === undefined) return;
    const change = rss - (this.#rss ?? rss);
    this.#rss ??= rss;
    if (Math.abs(change) >= NOTABLE_BYTES) {
      this.#explain(change, now);
      this.#rss = rss;
    }
    if (this.#departedAt !== undefined && now - this.#departedAt >= DEPARTED_MS) {
      this.#departedAt = undefined;
      this.#shares.forgetDeparted();
    }
    for (const watch of this.#watches) {
      const measure = watch.thread.takeMeasure();
      if (measure !== undefined) this.#shares.measured(watch, measure);
    }
    for (const watch of this.#watches) if (watch.endingAt === undefined) this.#judge(watch, now);
    if (rss > this.budgetBytes) this.#relieve(rss, now);
  }

  #explain(change: number, now: number): void {
    const use = this.#readUse();
    const mainBusyMs = this.#readings.mainBusyMs();
    const isCounted = use !== undefined && this.#use !== undefined;
    const deeds = new Map<Watch, Deed>();
    const read = (watch: Watch): void => void deeds.set(watch, this.#deedOf(watch, isCounted));
    for (const watch of this.#watches) {
      if (watch.isDue || watch.endingAt !== undefined) read(watch);
    }
    const known = (): number => [...deeds.values()].reduce((sum, { grown }) => sum + grown, 0);
    const total = isCounted ? use.all - this.#use!.all : 0;
    const ofMain = isCounted ? growth(this.#use!.main, use.main) : 0;
    const ofHelpers = isCounted ? growth(this.#use!.helpers, use.helpers) : 0;
    // Somebody else grew, and it may be one that has nothing to do.
    if (total - ofHelpers > 2 * known() && now - this.#wideAt >= WIDE_MS) {
      this.#wideAt = now;
      for (const watch of this.#watches) if (!deeds.has(watch)) read(watch);
    }
    // A thread whose memory is moved by helpers takes part in that: what they took is divided as
    // what they helped with was.
    const helped = known() + ofMain;
    if (helped > 0) {
      for (const [watch, { grown, hasWorked }] of deeds) {
        deeds.set(watch, { grown: grown + (ofHelpers * grown) / helped, hasWorked });
      }
    }
    const whole = isCounted ? total : known() + Math.max(0, mainBusyMs - this.#mainBusyMs);
    if (change > 0) this.#shares.grew(change, deeds, whole);
    else this.#shares.fell(-change, deeds);
    this.#use = use;
    this.#mainBusyMs = mainBusyMs;
  }

  #deedOf(watch: Watch, isCounted: boolean): Deed {
    const { thread, use: before, busyMs: busyBefore } = watch;
    const use = this.#useOf(thread);
    const busyMs = thread.busyMs();
    watch.use = use ?? before;
    watch.busyMs = busyMs;
    watch.isDue = watch.isWorking;
    const busy = Math.max(0, busyMs - busyBefore);
    // Where the system tells nothing of threads, all of them are compared by their busy time.
    if (!isCounted) return { grown: busy, hasWorked: busy > 0 };
    if (use === undefined || before === undefined) return { grown: 0, hasWorked: busy > 0 };
    return {
      grown: Math.max(0, use.minorFaults - before.minorFaults),
      hasWorked: use.cpuMs > before.cpuMs,
    };
  }

  #useOf({ tid }: GuardedThread): ThreadUse | undefined {
    return tid === undefined ? undefined : this.#readings.thread(tid);
  }

  #judge(watch: Watch, now: number): void {
    const { thread } = watch;
    const { memoryMb } = thread;
    if (memoryMb === 'unlimited') return;
    const bytes = this.#shares.of(watch);
    const limitBytes = memoryMb * MIB;
    if (bytes < limitBytes / 2) {
      watch.isWarned = false;
      return;
    }
    if (bytes >= endLimitMb(memoryMb) * MIB) {
      thread.kill(tooMuch(`its limit is ${memoryMb} MiB`, bytes));
      return;
    }
    if (now - watch.askedAt >= ASK_MS) {
      watch.askedAt = now;
      thread.measure();
    }
    if (bytes < limitBytes * 0.75 || watch.isWarned) return;
    watch.isWarned = true;
    thread.warn(bytes, limitBytes);
  }

  /** The process has more than it may have: the thread with the most goes, one at a time. */
  #relieve(rss: number, now: number): void {
    const shares = this.#shares;
    const watches = [...this.#watches];
    // What it has comes back when it is gone; one that cannot be ended is not waited for.
    const isRelieved = ({ endingAt }: Watch): boolean =>
      endingAt !== undefined && now - endingAt < RELIEF_MS;
    if (watches.some(isRelieved)) return;
    const [most] = watches
      .filter(({ endingAt }) => endingAt === undefined)
      .toSorted((a, b) => shares.of(b) - shares.of(a));
    if (most === undefined || shares.of(most) < BLAMED_BYTES) return;
    const budget = `the process has ${mebibytes(rss)} of the ${mebibytes(this.budgetBytes)} it may have`;
    most.thread.kill(tooMuch(`${budget}, and no other thread has more of that`, shares.of(most)));
  }
}

const growth = (before: number | undefined, now: number | undefined): number =>
  before === undefined || now === undefined ? 0 : Math.max(0, now - before);

const mebibytes = (bytes: number): string => `${Math.round(bytes / MIB)} MiB`;

function tooMuch(why: string, bytes: number): WorkerError {
  const text = `The thread ran out of memory: ${why}, and it had about ${mebibytes(bytes)}.`;
  return new WorkerError('WORKER_OUT_OF_MEMORY', text);
}
