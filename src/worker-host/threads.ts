/**
 * Where threads come from: warm ones that never served anyone, new ones while the cap allows,
 * and a fair queue beyond it. A thread that was checked out never comes back. Only a few are
 * starting at any time, because every start takes main's attention. The cap is what is allowed or,
 * if that is less, what the machine bears; one that cannot be ended counts for the machine only.
 */
import { SubagentError, WorkerError } from '../../protocol/errors.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { deferred, listenForAbort } from '../base/deferred.ts';
import type { Deferred } from '../base/deferred.ts';
import { FairQueue } from './fair-queue.ts';
import type { ThreadsHealth } from './health.ts';
import type { ThreadLimits } from './limits.ts';
import type { AgentThread, ThreadFactory } from './thread.ts';

/** What the machine bears. */
export interface Capacity {
  /** Threads that may exist at once, when so many do now. */
  most(live: number): number;
  /** What there would be too little of for one more. */
  readonly bound: string;
}

/** Between two looks at what the machine bears, while somebody waits for that alone. */
const LOOK_MS = 1_000;

export interface ThreadsOptions {
  readonly factory: ThreadFactory;
  /** Limits of the warm threads. */
  readonly defaults: ThreadLimits;
  /** Unused threads to keep ready. */
  readonly warm: number;
  /** Threads that may exist at once, warm ones included. */
  readonly maxThreads: number;
  /** Absent: nothing is known of it. */
  readonly machine?: Capacity | undefined;
  readonly clock: Clock;
  readonly startingAtOnce: number;
  /**
   * The queue cannot move: every thread has an agent. Called in a tick of its own; it may free
   * a thread, or refuse the newest entry.
   */
  onFull(): void;
}

interface Request {
  readonly limits: ThreadLimits;
  readonly result: Deferred<AgentThread>;
  /** A start may be refused when nothing can move; the wake of an accepted message may not. */
  readonly isRefusable: boolean;
  readonly root: object;
  /** Told when it has to wait in the queue, and when that is over. */
  readonly queued: ((isQueued: boolean) => void) | undefined;
  isQueued: boolean;
}

export class Threads {
  readonly #options: ThreadsOptions;
  readonly #live = new Set<AgentThread>();
  readonly #handedOut = new WeakSet<AgentThread>();
  readonly #warm: AgentThread[] = [];
  readonly #queue = new FairQueue<Request>();
  /** Out of the queue, while their threads start. */
  readonly #served = new Set<Request>();
  #starting = 0;
  #isClosed = false;
  /** The last thread that was to be kept ready did not start: the next one would not, either. */
  #isRefillFutile = false;
  #refillScheduled = false;
  #fullScheduled = false;
  #nextLook: Timer | undefined;

  constructor(options: ThreadsOptions) {
    this.#options = options;
    this.#scheduleRefill();
  }

  get liveCount(): number {
    return this.#live.size;
  }

  /** All but what nobody here knows: how many could not be ended. */
  get health(): Omit<ThreadsHealth, 'stuck'> {
    return {
      live: this.#live.size,
      warm: this.#warm.length,
      starting: this.#starting,
      queued: this.#queue.length,
      most: this.#most,
    };
  }

  get queueLength(): number {
    return this.#queue.length;
  }

  /** What keeps more threads from existing, unless it is `maxThreads`. */
  get bound(): string | undefined {
    const { machine, maxThreads } = this.#options;
    return this.#most < maxThreads ? machine?.bound : undefined;
  }

  get #most(): number {
    const { machine, maxThreads } = this.#options;
    return Math.min(maxThreads, machine?.most(this.#live.size) ?? maxThreads);
  }

  /** Somebody waits, every thread has an agent, and nobody is about to look at that. */
  get isStuck(): boolean {
    if (this.#queue.length === 0 || this.#fullScheduled) return false;
    return [...this.#live].every((thread) => this.#handedOut.has(thread));
  }

  /**
   * A thread that is up and waits for an agent; from here on it is the caller's to end.
   * @throws {WorkerError} when it did not start
   * @throws {SubagentError} `DRAINING` when the harness closes, `CAPACITY` when refused
   */
  checkout(
    limits: ThreadLimits,
    options: {
      readonly signal?: AbortSignal | undefined;
      readonly isRefusable: boolean;
      /** One of these after the other has a start of its served; absent: this one has no other. */
      readonly root?: object;
      /** Told when it has to wait in the queue, and when that is over. */
      queued?(isQueued: boolean): void;
    },
  ): Promise<AgentThread> {
    const { signal } = options;
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#isClosed) return Promise.reject(closing());
    const { isRefusable, root = {}, queued } = options;
    const result = deferred<AgentThread>();
    const request: Request = { limits, result, isRefusable, root, queued, isQueued: true };
    const onAbort = (): void => {
      this.#drop(request);
      request.result.reject(signal?.reason);
    };
    const release = signal && listenForAbort(signal, onAbort);
    this.#queue.add(request);
    this.#pump();
    if (request.isQueued) queued?.(true);
    return request.result.promise
      .then(async (thread) => {
        if (!signal?.aborted) return thread;
        // Aborted in the tick in which the thread was handed over.
        await this.#giveBack(thread);
        throw signal.reason;
      })
      .finally(() => release?.());
  }

  /** Refuse the newest start that waits. False when only wakes wait. */
  refuseNewest(error: HarnessError): boolean {
    const request = this.#queue.newestStart;
    if (request === undefined) return false;
    this.#drop(request);
    request.result.reject(error);
    // The others in the queue may have nobody to wait for, either.
    if (this.#queue.length > 0) this.#scheduleFull();
    return true;
  }

  /** Refuse what waits and end every thread that has no agent. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#nextLook?.cancel();
    for (const request of this.#queue.takeAll()) {
      this.#left(request);
      request.result.reject(closing());
    }
    for (const request of this.#served) request.result.reject(closing());
    await this.#endUnused();
  }

  /** An agent may have become idle: look again whether the queue can move. */
  review(): void {
    if (this.#queue.length > 0) this.#pump();
  }

  async #endUnused(): Promise<void> {
    const unused = [...this.#live].filter((thread) => !this.#handedOut.has(thread));
    for (const thread of unused) thread.kill(notNeeded());
    await Promise.all(unused.map((thread) => thread.ended));
  }

  #pump(): void {
    for (let request = this.#queue.first; request !== undefined; request = this.#queue.first) {
      const { limits } = request;
      const place = this.#warm.findIndex((thread) => thread.limits.memoryMb === limits.memoryMb);
      const [warm] = place < 0 ? [] : this.#warm.splice(place, 1);
      if (warm !== undefined) {
        this.#queue.shift();
        this.#left(request);
        this.#hand(warm, request);
        continue;
      }
      if (this.#live.size >= this.#most) {
        // A warm thread with other limits only stands in the way.
        const idle = this.#warm.shift();
        if (idle !== undefined) idle.kill(notNeeded());
        else this.#scheduleFull();
        this.#lookAgain();
        return;
      }
      if (this.#starting >= this.#options.startingAtOnce) return;
      this.#queue.shift();
      this.#left(request);
      this.#start(limits, request);
    }
    this.#scheduleRefill();
  }

  #start(limits: ThreadLimits, request: Request | undefined): void {
    const thread = this.#options.factory(limits);
    this.#live.add(thread);
    this.#starting++;
    void thread.ended.then(() => {
      this.#live.delete(thread);
      const place = this.#warm.indexOf(thread);
      if (place >= 0) this.#warm.splice(place, 1);
      this.#pump();
    });
    if (request !== undefined) this.#served.add(request);
    thread.up.then(
      () => {
        this.#starting--;
        this.#isRefillFutile = false;
        if (request !== undefined) this.#hand(thread, request);
        else void this.#giveBack(thread);
        this.#pump();
      },
      (error: unknown) => {
        this.#starting--;
        if (request !== undefined) this.#served.delete(request);
        else this.#isRefillFutile = true;
        request?.result.reject(error);
        this.#pump();
      },
    );
  }

  #hand(thread: AgentThread, request: Request): void {
    this.#served.delete(request);
    this.#handedOut.add(thread);
    thread.hold(true);
    // If the wait ended before its thread was up, the thread goes back unused.
    request.result.promise.catch(() => void this.#giveBack(thread));
    request.result.resolve(thread);
  }

  /** An unused thread with the default limits stays warm; another one has no use and ends. */
  async #giveBack(thread: AgentThread): Promise<void> {
    this.#handedOut.delete(thread);
    const { defaults, warm } = this.#options;
    const isUseful = thread.limits.memoryMb === defaults.memoryMb && this.#warm.length < warm;
    if (this.#isClosed || !isUseful) {
      thread.kill(notNeeded());
      await thread.ended;
      return;
    }
    thread.hold(false);
    this.#warm.push(thread);
    this.#pump();
  }

  #drop(request: Request): void {
    if (this.#queue.remove(request)) this.#left(request);
  }

  #left(request: Request): void {
    request.isQueued = false;
    if (this.#queue.length === 0) this.#nextLook?.cancel();
    request.queued?.(false);
  }

  #scheduleRefill(): void {
    if (this.#refillScheduled || this.#isClosed || this.#options.warm === 0) return;
    if (this.#isRefillFutile) return;
    this.#refillScheduled = true;
    // Not in the caller's way: what was just handed out goes first.
    setImmediate(() => {
      this.#refillScheduled = false;
      const { warm, startingAtOnce, defaults } = this.#options;
      if (this.#isClosed || this.#queue.length > 0) return;
      if (this.#warm.length + this.#starting >= warm || this.#live.size >= this.#most) return;
      if (this.#starting >= startingAtOnce) return;
      this.#start(defaults, undefined);
      this.#scheduleRefill();
    });
  }

  /** What the machine bears changes, and nobody tells. */
  #lookAgain(): void {
    this.#nextLook?.cancel();
    this.#nextLook = undefined;
    if (this.bound === undefined || this.#queue.length === 0) return;
    this.#nextLook = this.#options.clock.after(LOOK_MS, () => {
      this.#nextLook = undefined;
      this.#pump();
    });
  }

  #scheduleFull(): void {
    if (this.#fullScheduled) return;
    this.#fullScheduled = true;
    setImmediate(() => {
      this.#fullScheduled = false;
      if (this.#queue.length === 0 || this.#live.size < this.#most) return;
      // One that is starting, or going, will serve the queue by itself.
      if ([...this.#live].every((thread) => this.#handedOut.has(thread))) this.#options.onFull();
    });
  }
}

const notNeeded = (): WorkerError => new WorkerError('WORKER_EXITED', 'Not needed.');
const closing = (): SubagentError =>
  new SubagentError('DRAINING', 'No agent can be started: the harness is being disposed.');
