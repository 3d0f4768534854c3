/**
 * Ends threads that take more memory than they may have. The engine's own limit cannot: a single
 * large allocation beyond it aborts the whole process, and what lies outside the heap is not
 * counted at all. So that limit is set far above (`hardLimitMb`), and this looks at the process
 * from outside, several times as often as a thread can fill the space between. Whose the memory is
 * `MemoryAccounts` concludes; and a thread that has much is asked, which a loop that turns answers.
 *
 * It looks often while an agent works, seldom while all are idle, and not at all without threads.
 */
import { WorkerError } from '../../protocol/errors.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { elapsed } from '../base/clock.ts';
import type { Bound } from '../base/limit-values.ts';
import { MemoryAccounts } from './memory-accounts.ts';
import type { Account, AccountedThread } from './memory-accounts.ts';
import type { ProcessReadings } from './process-readings.ts';

/** A thread as its guard sees it. */
export interface GuardedThread extends AccountedThread {
  readonly memoryMb: Bound;
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
  readonly account: Account;
  endingAt: number | undefined;
  isWarned: boolean;
  askedAt: number;
  /** Since when it seems to have too much. */
  overAt: number | undefined;
}

const MIB = 1024 * 1024;
/** Between two looks while an agent works. */
const LOOK_MS = 25;
/** Between two looks while all are idle. */
const IDLE_LOOK_MS = 250;
/** Looking takes at most one part in so many of main's time. */
const THRIFT = 20;
/**
 * From the first look that finds a thread with too much to its end: all that have much are asked
 * meanwhile, and what one of them says that it has, this one has not.
 */
const CONFIRM_MS = 60;
/** Between two questions to one thread. */
const ASK_MS = 250;
/** Until what a thread that is gone had is given back. */
const DEPARTED_MS = 2_000;
/** Until the next thread is ended because the process has too much. */
const RELIEF_MS = 3_000;
/** One with less explains nothing. */
const ASKED_BYTES = 8 * MIB;
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
  readonly #accounts: MemoryAccounts;
  #departedAt: number | undefined;
  #timer: Timer | undefined;
  #isTimerSlow = false;
  #mostLateMs = 0;

  constructor({ clock, readings }: MemoryGuardOptions) {
    this.#clock = clock;
    this.#readings = readings;
    this.#accounts = new MemoryAccounts(readings);
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
    const accounts = this.#accounts;
    const account = accounts.open(thread, elapsed(this.#clock));
    const watch: Watch = {
      thread,
      account,
      endingAt: undefined,
      isWarned: false,
      askedAt: Number.NEGATIVE_INFINITY,
      overAt: undefined,
    };
    this.#watches.add(watch);
    this.#arm();
    return {
      working: (isWorking) => {
        account.isWorking = isWorking;
        if (isWorking) account.isDue = true;
        this.#arm();
      },
      ending: () => {
        watch.endingAt ??= elapsed(this.#clock);
        account.isEnding = true;
        this.#arm();
      },
      gone: () => {
        if (!this.#watches.delete(watch)) return;
        accounts.close(account);
        this.#departedAt = elapsed(this.#clock);
        this.#arm();
      },
      get bytes() {
        return accounts.of(account);
      },
    };
  }

  /** The next look, sooner or later as there is something to see. */
  #arm(spentMs = 0): void {
    const some = [...this.#watches].filter(({ endingAt }) => endingAt === undefined);
    const isSlow = !some.some(({ account }) => account.isWorking);
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
    const rss = this.#accounts.update(now);
    if (rss === undefined) return;
    if (this.#departedAt !== undefined && now - this.#departedAt >= DEPARTED_MS) {
      this.#departedAt = undefined;
      this.#accounts.forgetDeparted();
    }
    for (const watch of this.#watches) {
      const measure = watch.thread.takeMeasure();
      if (measure !== undefined) this.#accounts.measured(watch.account, measure);
    }
    for (const watch of this.#watches) if (watch.endingAt === undefined) this.#judge(watch, now);
    if (rss > this.budgetBytes) this.#relieve(rss, now);
  }

  #judge(watch: Watch, now: number): void {
    const { thread } = watch;
    const { memoryMb } = thread;
    if (memoryMb === 'unlimited') return;
    const bytes = this.#accounts.of(watch.account);
    const limitBytes = memoryMb * MIB;
    if (bytes < limitBytes / 2) {
      watch.isWarned = false;
      return;
    }
    if (bytes < endLimitMb(memoryMb) * MIB) watch.overAt = undefined;
    else if (watch.overAt === undefined) {
      watch.overAt = now;
      for (const other of this.#watches) this.#ask(other, now);
    } else if (now - watch.overAt >= CONFIRM_MS) {
      thread.kill(tooMuch(`its limit is ${memoryMb} MiB`, bytes));
      return;
    }
    if (now - watch.askedAt >= ASK_MS) this.#ask(watch, now);
    if (bytes < limitBytes * 0.75 || watch.isWarned) return;
    watch.isWarned = true;
    thread.warn(bytes, limitBytes);
  }

  #ask(watch: Watch, now: number): void {
    if (watch.endingAt !== undefined || this.#accounts.of(watch.account) < ASKED_BYTES) return;
    watch.askedAt = now;
    watch.thread.measure();
  }

  /** The process has more than it may have: the thread with the most goes, one at a time. */
  #relieve(rss: number, now: number): void {
    const bytesOf = ({ account }: Watch): number => this.#accounts.of(account);
    const watches = [...this.#watches];
    // What it has comes back when it is gone; one that cannot be ended is not waited for.
    const isRelieved = ({ endingAt }: Watch): boolean =>
      endingAt !== undefined && now - endingAt < RELIEF_MS;
    if (watches.some(isRelieved)) return;
    const [most] = watches
      .filter(({ endingAt }) => endingAt === undefined)
      .toSorted((a, b) => bytesOf(b) - bytesOf(a));
    if (most === undefined || bytesOf(most) < BLAMED_BYTES) return;
    const budget = `the process has ${mebibytes(rss)} of the ${mebibytes(this.budgetBytes)} it may have`;
    most.thread.kill(tooMuch(`${budget}, and no other thread has more of that`, bytesOf(most)));
  }
}

const mebibytes = (bytes: number): string => `${Math.round(bytes / MIB)} MiB`;

function tooMuch(why: string, bytes: number): WorkerError {
  const text = `The thread ran out of memory: ${why}, and it had about ${mebibytes(bytes)}.`;
  return new WorkerError('WORKER_OUT_OF_MEMORY', text);
}
