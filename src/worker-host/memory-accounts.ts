/**
 * Keeps account of whose the memory of the process is: reads what the process and its threads did
 * since it was last asked, and lays what that comes to at their doors. What main has its own engine
 * tells; the rest is divided by the pages that the system gave to each, without those that came
 * and went (`PageFaults`). It decides nothing.
 */
import { MemoryShares } from './memory-shares.ts';
import type { Deed } from './memory-shares.ts';
import { PageFaults } from './page-faults.ts';
import type { Faulting } from './page-faults.ts';
import type { ProcessReadings, ThreadUse } from './process-readings.ts';

/** A thread as it is read. */
export interface AccountedThread {
  /** What the system calls it. */
  readonly tid: number | undefined;
  /** For how long its loop has been busy so far. */
  busyMs(): number;
}

/** One thread's. Whoever opened it says what the thread is doing. */
export interface Account {
  readonly thread: AccountedThread;
  isWorking: boolean;
  /** It worked since it was last read. */
  isDue: boolean;
  /** It is being ended: what it takes until it is gone is its own. */
  isEnding: boolean;
  readAt: number;
  use: ThreadUse | undefined;
  busyMs: number;
  /** All that it was given so far. */
  pages: number;
}

/** Pages given so far to all threads, to main, and to the engine's helpers. */
interface Use {
  readonly all: number;
  readonly main: number | undefined;
  readonly helpers: number | undefined;
}

/** What one thread did since it was last read. */
interface Given extends Faulting {
  readonly busyMs: number;
  readonly hasWorked: boolean;
}

const MIB = 1024 * 1024;
/** A change of the process below this is left for a later time to explain, which comes soon. */
const NOTABLE_BYTES = 8 * MIB;
const EXPLAIN_MS = 250;
/** Between two looks at those that are idle. */
const WIDE_MS = 1_000;

export class MemoryAccounts {
  readonly #readings: ProcessReadings;
  readonly #accounts = new Set<Account>();
  readonly #shares = new MemoryShares<Account>();
  readonly #faults = new PageFaults<object>();
  /** Stand for what is no thread's of these: main, and all that nobody knows. */
  readonly #main = {};
  readonly #unknown = {};
  #explainedAt = 0;
  #wideAt = Number.NEGATIVE_INFINITY;
  #rss: number | undefined;
  #use: Use | undefined;
  #ownBytes = 0;
  #mainBusyMs = 0;

  constructor(readings: ProcessReadings) {
    this.#readings = readings;
  }

  open(thread: AccountedThread, now: number): Account {
    const state = { isWorking: false, isDue: true, isEnding: false, readAt: now, pages: 0 };
    const account: Account = {
      thread,
      ...state,
      use: this.#useOf(thread),
      busyMs: thread.busyMs(),
    };
    // Nothing was read for a while, or ever: whatever came meanwhile is nobody's.
    if (this.#accounts.size === 0) this.#read(now, this.#readings.rssBytes());
    this.#accounts.add(account);
    this.#shares.add(account);
    return account;
  }

  /** Its thread is gone. */
  close(account: Account): void {
    this.#accounts.delete(account);
    this.#shares.remove(account);
  }

  /** In bytes, as far as anybody knows. */
  of(account: Account): number {
    return this.#shares.of(account);
  }

  /** A thread's own word. */
  measured(account: Account, bytes: number): void {
    this.#shares.measured(account, bytes, account.pages * this.#readings.pageBytes);
  }

  forgetDeparted(): void {
    this.#shares.forgetDeparted();
  }

  /** Look at the process now, and lay what has changed at somebody's door. Its bytes in all. */
  update(now: number): number | undefined {
    const rss = this.#readings.rssBytes();
    // Nothing could be read: the next look explains both.
    if (rss === undefined) return undefined;
    this.#rss ??= rss;
    const change = rss - this.#rss;
    const isTime = now - this.#explainedAt >= EXPLAIN_MS && this.#isAnyDue();
    if (Math.abs(change) < NOTABLE_BYTES && !isTime) return rss;
    const { ownBytes, mainBusyMs, use: before } = this.#asRead();
    const overMs = now - this.#explainedAt;
    const use = this.#read(now, rss);
    if (use !== undefined && before !== undefined) {
      this.#explainByPages(change, pagesSince(before, use), this.#ownBytes - ownBytes, now, overMs);
    } else this.#explainByTime(change, Math.max(0, this.#mainBusyMs - mainBusyMs), now);
    return rss;
  }

  #asRead() {
    return { use: this.#use, ownBytes: this.#ownBytes, mainBusyMs: this.#mainBusyMs };
  }

  #read(now: number, rss: number | undefined): Use | undefined {
    const readings = this.#readings;
    const [all, main, helpers] = [readings.process(), readings.main(), readings.helpers()];
    this.#explainedAt = now;
    this.#rss = rss;
    this.#ownBytes = readings.ownBytes();
    this.#mainBusyMs = readings.mainBusyMs();
    this.#use =
      all === undefined
        ? undefined
        : { all: all.minorFaults, main: main?.minorFaults, helpers: helpers?.minorFaults };
    return this.#use;
  }

  #isAnyDue(): boolean {
    for (const { isDue } of this.#accounts) if (isDue) return true;
    return false;
  }

  #explainByPages(
    change: number,
    { all, main, helpers }: PagesSince,
    ownGrowth: number,
    now: number,
    overMs: number,
  ): void {
    const given = new Map<Account, Given>();
    for (const account of this.#accounts) {
      if (account.isDue || account.isEnding) given.set(account, this.#given(account, now));
    }
    const known = (): number => sumOf([...given.values()].map(({ faults }) => faults));
    // Somebody else grew, and it may be one that has nothing to do.
    if (all - helpers > 2 * known() && now - this.#wideAt >= WIDE_MS) {
      this.#wideAt = now;
      for (const account of this.#accounts) {
        if (!given.has(account)) given.set(account, this.#given(account, now));
      }
    }
    // A thread whose memory is moved by helpers takes part in that: what they were given is
    // divided as what those were given whom they helped.
    const helped = known() + main;
    const help = helped > 0 ? 1 + helpers / helped : 1;
    const { pageBytes } = this.#readings;
    // Main's own engine tells what it has. What was never touched is not in use.
    const ofMain = Math.max(0, Math.min(ownGrowth, main * help * pageBytes, change));
    const faulting = new Map<object, Faulting>();
    for (const [account, { faults, overMs: itsMs }] of given) {
      account.pages += faults * help;
      faulting.set(account, { faults: faults * help, overMs: itsMs });
    }
    faulting.set(this.#main, { faults: main * help - ofMain / pageBytes, overMs });
    const ofNobody = Math.max(0, all - helped * help);
    faulting.set(this.#unknown, { faults: ofNobody, overMs });
    const kept = this.#faults.kept((change - ofMain) / pageBytes, faulting);
    const deeds = new Map<Account, Deed>();
    for (const [account, { hasWorked }] of given) {
      deeds.set(account, { grown: kept.get(account)!, hasWorked });
    }
    this.#changed(change, ofMain, deeds, sumOf([...kept.values()]));
  }

  /** Where the system tells nothing of threads, all of them are compared by their busy time. */
  #explainByTime(change: number, mainMs: number, now: number): void {
    const deeds = new Map<Account, Deed>();
    for (const account of this.#accounts) {
      const { busyMs } = this.#given(account, now);
      deeds.set(account, { grown: busyMs, hasWorked: busyMs > 0 });
    }
    const whole = mainMs + sumOf([...deeds.values()].map(({ grown }) => grown));
    this.#changed(change, 0, deeds, whole);
  }

  #changed(change: number, ofMain: number, deeds: Map<Account, Deed>, whole: number): void {
    if (change <= 0) return this.#shares.fell(-change, deeds);
    this.#shares.grew(ofMain, new Map(), 0);
    this.#shares.grew(change - ofMain, deeds, whole);
  }

  #given(account: Account, now: number): Given {
    const { thread, use: before, busyMs: busyBefore, readAt } = account;
    const use = this.#useOf(thread);
    const busyMs = thread.busyMs();
    account.use = use ?? before;
    account.busyMs = busyMs;
    account.isDue = account.isWorking;
    account.readAt = now;
    const busy = Math.max(0, busyMs - busyBefore);
    const isCounted = use !== undefined && before !== undefined;
    return {
      faults: isCounted ? Math.max(0, use.minorFaults - before.minorFaults) : 0,
      overMs: now - readAt,
      busyMs: busy,
      hasWorked: isCounted ? use.cpuMs > before.cpuMs : busy > 0,
    };
  }

  #useOf({ tid }: AccountedThread): ThreadUse | undefined {
    return tid === undefined ? undefined : this.#readings.thread(tid);
  }
}

interface PagesSince {
  readonly all: number;
  readonly main: number;
  readonly helpers: number;
}

const pagesSince = (before: Use, now: Use): PagesSince => ({
  all: now.all - before.all,
  main: more(before.main, now.main),
  helpers: more(before.helpers, now.helpers),
});

const more = (before: number | undefined, now: number | undefined): number =>
  before === undefined || now === undefined ? 0 : Math.max(0, now - before);

const sumOf = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);
