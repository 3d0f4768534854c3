/**
 * One life of the main process under simulation: everything that would run later, kept as actions
 * that a scheduler takes one by one. When the process dies, all of it is dropped at once.
 */
import type { Clock, Timer } from '../../src/base/clock.ts';
import type { StoreError } from '../../protocol/errors.ts';
import type { WorkerInit } from '../../protocol/worker-init.ts';

export interface Task {
  readonly run: () => void;
  isCancelled: boolean;
}

export interface SetTimer extends Task {
  readonly at: number;
  readonly number: number;
  /**
   * Set by one that fired: whoever set it looks again and again. Often, alone it moves nothing; now
   * and then, it may have seen enough after some looks.
   */
  readonly look: 'often' | 'seldom' | undefined;
}

/** Whoever looks often does so at least once in this time, and who does seldom in that. */
const OFTEN_MS = 500;
const SELDOM_MS = 15_000;

/** Somebody on main who waits until the scheduler lets them go on. */
export interface Wait {
  readonly what: string;
  readonly open: () => void;
}

/** One call of the store that has no answer yet. */
export interface StoreCall {
  readonly what: string;
  readonly isWrite: boolean;
  /** It takes until then, at least. */
  notBefore: number;
  /** Do it, and answer. */
  finish(): Promise<void>;
  /** Answer, and do nothing. */
  fail(error: StoreError): void;
  /** Do it and answer nothing: the process that asked is gone. */
  doOnly(): Promise<void>;
}

/** How a thread ends that was not asked to. */
export type Death = 'throw' | 'exit' | 'exit 0' | 'out of memory' | 'silent';
/** What no thread may post. */
export type Breach = 'garbage' | 'flood' | 'no bytes' | 'stopped' | 'prints';

/** A thread, as whoever moves it on sees it. */
export interface Thread {
  readonly threadId: number;
  readonly init: Pick<WorkerInit, 'sessionId'> | undefined;
  readonly state: 'starting' | 'running' | 'ending' | 'gone';
  /** When it was first told to end, by force. */
  readonly terminatedAt: number | undefined;
  /** It runs nothing and cannot be asked to. */
  isHung: boolean;
  /** Not even force ends it. */
  isStuck: boolean;
  /** All that it printed. */
  readonly printed: string;
  /** It broke the protocol: what it says does not count. */
  readonly hasMisbehaved: boolean;
  /** It has something to do, and can. */
  readonly isReady: boolean;
  /** One task of its event loop: a message, or what it put off. `coin` decides if both wait. */
  step(coin: boolean): string;
  /** Something it posted can be told to main. */
  readonly canTell: boolean;
  tell(): string;
  /** Its end can be told: it may overtake what it posted to its agent's port, as a real one. */
  readonly canExit: boolean;
  exit(): string;
  die(how: Death): void;
  misbehave(how: Breach): void;
}

/** What a thread is made with. */
export interface ThreadOptions {
  readonly resourceLimits: { readonly maxOldGenerationSizeMb?: number };
  /** What it prints comes to whoever made it, and is not main's. */
  readonly stdout?: boolean;
  readonly stderr?: boolean;
}

/** When simulated time begins. */
export const EPOCH = 1_700_000_000_000;

export class Life {
  /** Of the event loop of main: first in, first out. */
  readonly immediates: Task[] = [];
  /** By time, then in the order in which they were set. */
  readonly timers: SetTimer[] = [];
  readonly threads: Thread[] = [];
  readonly calls: StoreCall[] = [];
  readonly waits: Wait[] = [];
  readonly clock: Clock;
  isOver = false;
  /** A timer of it fires, right now. */
  isFiring = false;
  #setTimers = 0;

  constructor(now: () => number) {
    this.clock = {
      now,
      after: (ms, run) => this.after(now() + Math.max(0, ms), run),
    };
  }

  immediate(run: () => void): Task {
    const task: Task = { run, isCancelled: false };
    if (!this.isOver) this.immediates.push(task);
    return task;
  }

  after(at: number, run: () => void): Timer {
    const ms = this.isFiring ? at - here.now : Infinity;
    const look = ms <= OFTEN_MS ? 'often' : ms <= SELDOM_MS ? 'seldom' : undefined;
    const timer: SetTimer = { at, number: this.#setTimers++, run, look, isCancelled: false };
    if (!this.isOver) {
      let place = this.timers.length;
      while (place > 0 && (this.timers[place - 1] as SetTimer).at > at) place--;
      this.timers.splice(place, 0, timer);
    }
    return {
      cancel: () => {
        const place = this.timers.indexOf(timer);
        if (place >= 0) this.timers.splice(place, 1);
      },
    };
  }

  /** Until the scheduler says so, or the signal does. */
  wait(what: string, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.isOver) return;
      if (signal?.aborted === true) return void reject(signal.reason as Error);
      const leave = (): void => {
        const place = this.waits.indexOf(wait);
        if (place >= 0) this.waits.splice(place, 1);
        signal?.removeEventListener('abort', onAbort);
      };
      const onAbort = (): void => {
        leave();
        reject(signal?.reason as Error);
      };
      const wait: Wait = {
        what,
        open: () => {
          leave();
          resolve();
        },
      };
      signal?.addEventListener('abort', onAbort);
      this.waits.push(wait);
    });
  }

  /** The process is dead: whatever it was about to do does not happen. */
  end(): void {
    this.isOver = true;
    this.immediates.length = 0;
    this.timers.length = 0;
    this.threads.length = 0;
    this.calls.length = 0;
    this.waits.length = 0;
  }
}

/** Where what runs now belongs: the life of main, and the time. Read by what stands in for Node. */
export const here: {
  life: Life;
  now: number;
  ids: number;
  /** Makes the thread of a `Worker`. */
  make: ((life: Life, options: ThreadOptions) => Thread) | undefined;
  /** What was done last, for whoever finds out that the simulation itself failed. */
  lastTrace?: () => readonly string[];
} = { life: new Life(() => here.now), now: EPOCH, ids: 0, make: undefined };
