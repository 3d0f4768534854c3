/**
 * The one constructor around `Worker`. It owns a thread and main's end of the agent's port, from
 * construction to the moment both are gone; what the frames mean is its user's.
 *
 * One way: see `ThreadState`. The first reason to kill wins. The end is told once, after the
 * thread's `exit` and after every frame that had arrived by then was taken from the port: results
 * posted right before an exit are not lost. Of a thread that does not exit the end is told without
 * it; what it holds is given back when it is gone after all.
 */
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { MessagePort } from 'node:worker_threads';
import type { ErrorRecord } from '../../protocol/error-record.ts';
import { ProtocolError, WorkerError } from '../../protocol/errors.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import type { SessionId } from '../../protocol/ids.ts';
import type { Port } from '../../protocol/port.ts';
import { PROTOCOL_VERSION } from '../../protocol/to-main.ts';
import { decodeFrame } from '../../protocol/validate.ts';
import type { InitMessage, ThreadData, WorkerInit } from '../../protocol/worker-init.ts';
import { census } from '../base/census.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { deferred } from '../base/deferred.ts';
import type { Logger } from '../base/logger.ts';
import { CapturedOutput } from './captured-output.ts';
import type { ThreadLimits } from './limits.ts';
import { hardLimitMb } from './memory-guard.ts';
import type { Guarded } from './memory-guard.ts';
import type { Supervision } from './supervision.ts';
import {
  checkHeapLimit,
  crash,
  exited,
  stuck,
  uncaught,
  YOUNG_GENERATION_MB,
} from './thread-errors.ts';
import { ThreadMemory } from './thread-memory.ts';
import { ThreadState } from './thread-state.ts';
import type { Pulse } from './watchdog.ts';

/** How a thread ended. Without an error it ended as it was asked to. */
export interface ThreadEnd {
  readonly error: HarnessError | undefined;
}

/** One thread for one agent, wherever it runs. */
export interface AgentThread {
  readonly limits: ThreadLimits;
  /** Resolves at the thread's first sign of life; rejects with a `WorkerError`. */
  readonly up: Promise<void>;
  /** Give the thread its agent. Once: a thread never serves two. The port is ours to read. */
  assign(init: WorkerInit): Port;
  /** The agent said why it cannot go on, or that it is done; decides how the end is told. */
  note(word: { readonly fault: ErrorRecord } | 'stopped'): void;
  /** End it now. Idempotent; the first reason is kept. */
  kill(reason: HarnessError): void;
  /**
   * `take` is called once when the thread is gone, with all that its port still held, in order;
   * `ending` in the tick in which somebody, whoever it is, ends it by force.
   */
  onGone(take: (held: Iterable<unknown>) => void, ending?: () => void): void;
  /** Settles once, after `onGone`. Never rejects. */
  readonly ended: Promise<ThreadEnd>;
  /** Whether it keeps the process alive. */
  hold(held: boolean): void;
  /** Processor time it has used so far, in milliseconds; `undefined` when nothing tells, or it is gone. */
  cpuMs(): number | undefined;
  /** Absent: nothing tells whether its loop turns. */
  readonly pulse?: Pulse;
  /** Memory of the process that is this thread's, as far as anybody knows. */
  readonly memoryBytes?: number | undefined;
}

export type ThreadFactory = (limits: ThreadLimits) => AgentThread;

export interface WorkerThreadOptions {
  readonly entry: URL;
  readonly limits: ThreadLimits;
  /** The thread's whole environment. */
  readonly env: Readonly<Record<string, string>>;
  readonly execArgv: readonly string[];
  readonly startMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly supervision: Supervision;
}

const STACK_MB = 4;
/** The end of a dead thread's output that is logged. */
const REPORTED_CHARACTERS = 4_096;
/** From `terminate()` to the verdict that the thread cannot be ended. */
export const STUCK_MS = 3_000;
/** From the close of a port by its thread to the end of a thread that does not exit. */
const LINGER_MS = 300;

export class WorkerThread implements AgentThread {
  readonly limits: ThreadLimits;
  readonly output = new CapturedOutput(() =>
    this.kill(new WorkerError('WORKER_FLOODED', 'A thread printed more than it may send.')),
  );
  readonly #options: WorkerThreadOptions;
  readonly #worker: Worker | undefined;
  readonly #up = deferred<void>();
  readonly #ended = deferred<ThreadEnd>();
  readonly #timers = new Set<Timer>();
  readonly #state = new ThreadState();
  #memory = new ThreadMemory(undefined);
  #port: MessagePort | undefined;
  #agent: SessionId | undefined;
  #killReason: HarnessError | undefined;
  /** It was on its way out by itself, and what it says of that when it is gone is better known. */
  #isReasonGuessed = false;
  /** What the system calls it. Told before any code of others ran in it. */
  #tid: number | undefined;
  #guarded: Guarded | undefined;
  #isHeld = false;
  /** Gives back what the thread is counted by. */
  #release: () => void = () => {};
  #unstuck: (() => void) | undefined;
  #fault: ErrorRecord | undefined;
  #isPolite = false;
  #thrown: { readonly error: unknown } | undefined;
  #takeHeld: ((held: Iterable<unknown>) => void) | undefined;
  #ending: (() => void) | undefined;

  constructor(options: WorkerThreadOptions) {
    this.#options = options;
    this.limits = options.limits;
    // Whoever starts a thread and then gives up must not be told of a rejection twice.
    this.#up.promise.catch(() => {});
    let worker: Worker;
    try {
      worker = new Worker(options.entry, {
        stdout: true,
        stderr: true,
        env: { ...options.env },
        execArgv: [...options.execArgv],
        trackUnmanagedFds: true,
        workerData: { printed: this.output.cell.buffer } satisfies ThreadData,
        resourceLimits: resourceLimits(options.limits),
      });
    } catch (error) {
      this.#state.to('dead');
      const failure = new WorkerError('WORKER_START_FAILED', 'A thread could not be made.', {
        cause: error,
      });
      this.#up.reject(failure);
      this.#ended.resolve({ error: failure });
      return;
    }
    this.#worker = worker;
    this.#memory = new ThreadMemory(worker);
    this.#release = census.add('thread');
    worker.on('error', (error: unknown) => (this.#thrown ??= { error }));
    worker.on('exit', (code) => this.#gone(code));
    worker.on('message', (value: unknown) => this.#onOwnPort(value));
    worker.on('messageerror', () =>
      this.kill(new ProtocolError('PROTOCOL_VIOLATION', 'A thread posted what cannot be read.')),
    );
    this.output.attach(worker.stdout);
    this.output.attach(worker.stderr);
    this.#after(options.startMs, () => {
      if (!this.#state.is('starting')) return;
      const text = `A thread gave no sign of life within ${options.startMs} ms.`;
      this.kill(new WorkerError('WORKER_START_TIMEOUT', text));
    });
  }

  get up(): Promise<void> {
    return this.#up.promise;
  }

  get pulse(): Pulse {
    return this.#memory;
  }

  get ended(): Promise<ThreadEnd> {
    return this.#ended.promise;
  }

  assign(init: WorkerInit): Port {
    if (this.#worker === undefined || !this.#state.to('assigned')) {
      throw new WorkerError('WORKER_EXITED', 'The thread is not waiting for an agent.');
    }
    this.#agent = init.sessionId;
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const release = census.add('port');
    port1.on('close', () => {
      release();
      // The end of talk. A thread that goes on without its port serves nobody.
      this.#after(LINGER_MS, () => {
        this.#isReasonGuessed = this.#state.is('assigned');
        this.kill(new WorkerError('WORKER_EXITED', 'The thread closed its port.'));
      });
    });
    this.#worker.postMessage({ init, port: port2 } satisfies InitMessage<MessagePort>, [port2]);
    return port1 as unknown as Port;
  }

  note(word: { readonly fault: ErrorRecord } | 'stopped'): void {
    if (word === 'stopped') this.#isPolite = true;
    else this.#fault ??= word.fault;
  }

  kill(reason: HarnessError): void {
    if (!this.#state.to('killing')) return;
    this.#killReason = reason;
    const since = this.#options.clock.now();
    this.#worker?.removeAllListeners('message');
    // Before the thread is told: what it asks from here on is not answered any more.
    this.#ending?.();
    this.#guarded?.ending();
    void this.#worker?.terminate();
    this.#after(STUCK_MS, () => this.#giveUp(reason, since));
  }

  onGone(take: (held: Iterable<unknown>) => void, ending?: () => void): void {
    this.#takeHeld = take;
    this.#ending = ending;
  }

  hold(held: boolean): void {
    this.#isHeld = held;
    this.#guarded?.working(held);
    if (held) this.#worker?.ref();
    else this.#worker?.unref();
    if (!held) this.output.unref();
    if (held) this.#port?.ref();
    else this.#port?.unref();
  }

  cpuMs(): number | undefined {
    if (!this.#state.is('waiting', 'assigned', 'killing')) return undefined;
    const { readings } = this.#options.supervision;
    const used = this.#tid === undefined ? undefined : readings.thread(this.#tid);
    // Time in which its loop was busy: more than it used when it slept in a call, never less.
    return used?.cpuMs ?? this.#busyMs();
  }

  #busyMs(): number {
    return this.#worker?.performance.eventLoopUtilization().active ?? 0;
  }

  /** The thread's own port says `up`, once; nothing else belongs there. */
  #onOwnPort(value: unknown): void {
    try {
      const { frame } = decodeFrame(value);
      if (frame.type !== 'up' || !this.#state.is('starting')) {
        throw new ProtocolError('PROTOCOL_VIOLATION', 'A thread posted on its own port.');
      }
      if (frame.protocol !== PROTOCOL_VERSION) {
        const text = `The thread speaks protocol ${frame.protocol}, not ${PROTOCOL_VERSION}.`;
        throw new ProtocolError('PROTOCOL_VERSION', text);
      }
      checkHeapLimit(this.limits, frame.heapLimitBytes);
      this.#tid = frame.tid;
    } catch (error) {
      this.kill(error as HarnessError);
      return;
    }
    this.#state.to('waiting');
    this.#watchMemory();
    this.#up.resolve();
  }

  get memoryBytes(): number | undefined {
    const { bytes } = this.#guarded ?? {};
    return bytes === undefined ? undefined : Math.round(bytes);
  }

  #watchMemory(): void {
    this.#guarded = this.#options.supervision.guard.watch({
      memoryMb: this.limits.memoryMb,
      tid: this.#tid,
      busyMs: () => this.#busyMs(),
      measure: () => this.#memory.measure(),
      takeMeasure: () => this.#memory.take(),
      warn: (share, limitBytes) => {
        const { events } = this.#options.supervision;
        const bytes = Math.round(share);
        events.emit('thread/warning', { ...this.#whose(), kind: 'memory', bytes, limitBytes });
      },
      kill: (reason) => this.kill(reason),
    });
    this.#guarded.working(this.#isHeld);
  }

  #whose(): { readonly agent?: SessionId } {
    return this.#agent === undefined ? {} : { agent: this.#agent };
  }

  /** It does not end. Its end is told without it, and from here on nothing of it is heard. */
  #giveUp(reason: HarnessError, since: number): void {
    if (!this.#state.to('stuck')) return;
    // The process may end: to terminate a thread holds it again.
    this.hold(false);
    const { code, message } = reason;
    const thread = this.#worker?.threadId ?? 0;
    this.#unstuck = this.#options.supervision.stuck({
      ...this.#whose(),
      thread,
      reason: { code, message },
      since,
    });
    this.#settle(stuck(reason));
  }

  #gone(code: number): void {
    const wasStuck = this.#state.is('stuck');
    if (!this.#state.to('dead')) return;
    this.#guarded?.gone();
    this.#release();
    // Its end was told, and its port closed, when it was given up.
    if (wasStuck) return this.#unstuck?.();
    // Frames that arrived and were not handled yet are still in the port.
    this.#takeHeld?.(heldBy(this.#port));
    this.#settle(this.#verdict(code));
  }

  #verdict(code: number): HarnessError | undefined {
    if (this.#killReason !== undefined && !this.#isReasonGuessed) return this.#killReason;
    if (this.#fault !== undefined) return crash(this.#fault);
    if (this.#thrown !== undefined) return uncaught(this.#thrown.error, this.limits);
    if (this.#killReason !== undefined) return this.#killReason;
    if (this.#isPolite) return undefined;
    return exited(code);
  }

  #settle(error: HarnessError | undefined): void {
    for (const timer of this.#timers) timer.cancel();
    this.#timers.clear();
    this.#port?.close();
    this.#reportOutput(error);
    this.#up.reject(
      error ?? new WorkerError('WORKER_START_FAILED', 'The thread ended while it was starting.'),
    );
    this.#ended.resolve({ error });
  }

  /** What a thread printed is often all that its author left to find out why it died. */
  #reportOutput(error: HarnessError | undefined): void {
    const { text, droppedBytes } = this.output;
    if (error === undefined || text === '') return;
    const output = text.slice(-REPORTED_CHARACTERS);
    const fields = { code: error.code, output, droppedBytes };
    this.#options.logger.warn(fields, 'A thread that did not end well had printed this.');
  }

  #after(ms: number, run: () => void): void {
    if (this.#state.is('stuck', 'dead')) return;
    const timer = this.#options.clock.after(ms, () => {
      this.#timers.delete(timer);
      if (!this.#state.is('stuck', 'dead')) run();
    });
    this.#timers.add(timer);
  }
}

/** One at a time: whoever takes them may stop before a flood is through. */
function* heldBy(port: MessagePort | undefined): Generator<unknown> {
  if (port === undefined) return;
  for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port)) {
    yield next.message;
  }
}

function resourceLimits({ memoryMb }: ThreadLimits): {
  maxOldGenerationSizeMb?: number;
  maxYoungGenerationSizeMb?: number;
  stackSizeMb: number;
} {
  if (memoryMb === 'unlimited') return { stackSizeMb: STACK_MB };
  return {
    maxOldGenerationSizeMb: hardLimitMb(memoryMb),
    maxYoungGenerationSizeMb: YOUNG_GENERATION_MB,
    stackSizeMb: STACK_MB,
  };
}
