/**
 * The edge of the in-process plane: "threads" whose worker body runs in the test's own thread
 * over linked ports. Everything else is the product's own code.
 */
import { boot } from '../../workers/boot.ts';
import type { BootedAgent } from '../../workers/boot.ts';
import type { WorkerError } from '../../protocol/errors.ts';
import { WorkerError as WorkerFailure } from '../../protocol/errors.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import type { ErrorRecord } from '../../protocol/error-record.ts';
import type { Port } from '../../protocol/port.ts';
import type { WorkerInit } from '../../protocol/worker-init.ts';
import type { Clock } from '../../src/base/clock.ts';
import { deferred } from '../../src/base/deferred.ts';
import type { ThreadLimits } from '../../src/worker-host/limits.ts';
import type { AgentThread, ThreadEnd, ThreadFactory } from '../../src/worker-host/thread.ts';
import { linkedPorts } from './linked-ports.ts';
import type { LinkedPorts } from './linked-ports.ts';

export interface InProcessThreads {
  readonly factory: ThreadFactory;
  /** Every thread ever made, oldest first. */
  readonly all: readonly InProcessThread[];
  /** The thread that serves this session now. */
  of(sessionId: string): InProcessThread;
}

export interface InProcessThreadsOptions {
  readonly clock: Clock;
  /** `manual`: the test delivers every frame itself. */
  readonly delivery?: 'auto' | 'manual';
  /** Loads modules by URL; the default imports them. */
  import?(url: string): Promise<unknown>;
  /** Makes the n-th thread (from 0) fail to start. */
  failStart?(index: number): WorkerError | undefined;
  /** Told of each thread that is made: whoever delivers its frames needs it before its agent is there. */
  made?(thread: InProcessThread): void;
}

export function inProcessThreads(options: InProcessThreadsOptions): InProcessThreads {
  const all: InProcessThread[] = [];
  return {
    all,
    factory(limits) {
      const thread = new InProcessThread(limits, options, options.failStart?.(all.length));
      all.push(thread);
      options.made?.(thread);
      return thread;
    },
    of(sessionId) {
      const thread = all.findLast((one) => one.init?.sessionId === sessionId);
      if (thread === undefined) throw new Error(`No thread serves ${sessionId}.`);
      return thread;
    },
  };
}

export class InProcessThread implements AgentThread {
  readonly limits: ThreadLimits;
  readonly up: Promise<void>;
  init: WorkerInit | undefined;
  ports: LinkedPorts | undefined;
  readonly #options: InProcessThreadsOptions;
  readonly #ended = deferred<ThreadEnd>();
  #takeHeld: ((held: Iterable<unknown>) => void) | undefined;
  #agent: BootedAgent | undefined;
  #fault: ErrorRecord | undefined;
  #isPolite = false;
  #isGone = false;

  constructor(
    limits: ThreadLimits,
    options: InProcessThreadsOptions,
    failure: WorkerError | undefined,
  ) {
    this.limits = limits;
    this.#options = options;
    if (failure === undefined) {
      this.up = Promise.resolve();
    } else {
      this.up = Promise.reject(failure);
      this.up.catch(() => {});
      this.#end(() => failure);
    }
  }

  get ended(): Promise<ThreadEnd> {
    return this.#ended.promise;
  }

  assign(init: WorkerInit): Port {
    this.init = structuredClone(init);
    const { clock } = this.#options;
    const ports = linkedPorts(this.#options.delivery ?? 'auto');
    this.ports = ports;
    this.#agent = boot(ports.worker, init, {
      import: this.#options.import ?? ((url) => import(/* @vite-ignore */ url)),
      defer: (run) => void setImmediate(run),
      delay: (ms, signal) =>
        new Promise((resolve, reject) => {
          signal.throwIfAborted();
          const timer = clock.after(ms, resolve);
          const onAbort = (): void => {
            timer.cancel();
            reject(signal.reason);
          };
          signal.addEventListener('abort', onAbort, { once: true });
        }),
    });
    void this.#agent.done.then(() => this.#end(() => this.#verdict()));
    return ports.main;
  }

  note(word: { readonly fault: ErrorRecord } | 'stopped'): void {
    if (word === 'stopped') this.#isPolite = true;
    else this.#fault ??= word.fault;
  }

  kill(reason: HarnessError): void {
    this.#end(() => reason);
  }

  onGone(take: (held: Iterable<unknown>) => void): void {
    this.#takeHeld = take;
  }

  hold(): void {}

  /** What the test says that it used. */
  usedCpuMs: number | undefined;

  cpuMs(): number | undefined {
    return this.#isGone ? undefined : this.usedCpuMs;
  }

  /** What a crash of the thread looks like from main. */
  crash(message = 'boom'): void {
    this.#agent?.fault(new Error(message));
  }

  #end(verdict: () => HarnessError | undefined): void {
    if (this.#isGone) return;
    this.#isGone = true;
    // A real thread's last frames are in its port when it is gone; one may say why it went.
    this.#takeHeld?.(this.ports?.take('main') ?? []);
    this.ports?.close();
    this.#ended.resolve({ error: verdict() });
  }

  #verdict(): HarnessError | undefined {
    const fault = this.#fault;
    if (fault !== undefined) {
      const text = `The thread crashed: ${fault.name}: ${fault.message}`;
      return new WorkerFailure('WORKER_CRASHED', text);
    }
    if (this.#isPolite) return undefined;
    return new WorkerFailure('WORKER_EXITED', 'The thread ended by itself.');
  }
}
