/**
 * The one constructor around `Worker`. It owns a thread and main's end of the agent's port, from
 * construction to the moment both are gone; what the frames mean is its user's.
 *
 * One way: starting → waiting → assigned → killing → dead. The first reason to kill wins.
 * The end is told once, after the thread's `exit` and after every frame that had arrived by
 * then was taken from the port: results posted right before an exit are not lost.
 */
import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import type { MessagePort } from 'node:worker_threads';
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { ErrorRecord } from '../../protocol/error-record.ts';
import { ProtocolError, WorkerError } from '../../protocol/errors.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import type { Port } from '../../protocol/port.ts';
import { PROTOCOL_VERSION } from '../../protocol/to-main.ts';
import { decodeFrame } from '../../protocol/validate.ts';
import type { WorkerInit } from '../../protocol/worker-init.ts';
import { census } from '../base/census.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { deferred } from '../base/deferred.ts';
import type { Logger } from '../base/logger.ts';
import { CapturedOutput } from './captured-output.ts';
import type { ThreadLimits } from './limits.ts';
import type { ProcessReadings } from './process-readings.ts';

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
  /** Called once when the thread is gone, with all that its port still held, in order. */
  onGone(take: (held: Iterable<unknown>) => void): void;
  /** Settles once, after `onGone`. Never rejects. */
  readonly ended: Promise<ThreadEnd>;
  /** Whether it keeps the process alive. */
  hold(held: boolean): void;
  /** Processor time it has used so far, in milliseconds; `undefined` when nothing tells, or it is gone. */
  cpuMs(): number | undefined;
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
  readonly readings: ProcessReadings;
}

const YOUNG_GENERATION_MB = 16;
const STACK_MB = 4;
const MIB = 1024 * 1024;
/** The end of a dead thread's output that is logged. */
const REPORTED_CHARACTERS = 4_096;
/** From `terminate()` to the verdict that the thread cannot be ended. */
export const STUCK_MS = 3_000;
/** From the close of a port by its thread to the end of a thread that does not exit. */
const LINGER_MS = 300;

export class WorkerThread implements AgentThread {
  readonly limits: ThreadLimits;
  readonly output = new CapturedOutput();
  readonly #options: WorkerThreadOptions;
  readonly #worker: Worker | undefined;
  readonly #up = deferred<void>();
  readonly #ended = deferred<ThreadEnd>();
  readonly #timers = new Set<Timer>();
  #state: 'starting' | 'waiting' | 'assigned' | 'killing' | 'dead' = 'starting';
  #port: MessagePort | undefined;
  #killReason: HarnessError | undefined;
  /** What the system calls it. Told before any code of others ran in it. */
  #tid: number | undefined;
  #fault: ErrorRecord | undefined;
  #isPolite = false;
  #thrown: { readonly error: unknown } | undefined;
  #takeHeld: ((held: Iterable<unknown>) => void) | undefined;

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
        resourceLimits: resourceLimits(options.limits),
      });
    } catch (error) {
      this.#state = 'dead';
      const failure = new WorkerError('WORKER_START_FAILED', 'A thread could not be made.', {
        cause: error,
      });
      this.#up.reject(failure);
      this.#ended.resolve({ error: failure });
      return;
    }
    this.#worker = worker;
    const release = census.add('thread');
    void this.#ended.promise.then(release);
    worker.on('error', (error: unknown) => (this.#thrown ??= { error }));
    worker.on('exit', (code) => this.#gone(code));
    worker.on('message', (value: unknown) => this.#onOwnPort(value));
    worker.on('messageerror', () =>
      this.kill(new ProtocolError('PROTOCOL_VIOLATION', 'A thread posted what cannot be read.')),
    );
    this.output.attach(worker.stdout);
    this.output.attach(worker.stderr);
    this.#after(options.startMs, () => {
      if (this.#state !== 'starting') return;
      const text = `A thread gave no sign of life within ${options.startMs} ms.`;
      this.kill(new WorkerError('WORKER_START_TIMEOUT', text));
    });
  }

  get up(): Promise<void> {
    return this.#up.promise;
  }

  get ended(): Promise<ThreadEnd> {
    return this.#ended.promise;
  }

  assign(init: WorkerInit): Port {
    if (this.#state !== 'waiting' || this.#worker === undefined) {
      throw new WorkerError('WORKER_EXITED', 'The thread is not waiting for an agent.');
    }
    this.#state = 'assigned';
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    const release = census.add('port');
    port1.on('close', () => {
      release();
      // The end of talk. A thread that goes on without its port serves nobody.
      this.#after(LINGER_MS, () =>
        this.kill(
          this.#fault === undefined
            ? new WorkerError('WORKER_EXITED', 'The thread closed its port.')
            : crash(this.#fault),
        ),
      );
    });
    this.#worker.postMessage({ init, port: port2 }, [port2]);
    return port1 as unknown as Port;
  }

  note(word: { readonly fault: ErrorRecord } | 'stopped'): void {
    if (word === 'stopped') this.#isPolite = true;
    else this.#fault ??= word.fault;
  }

  kill(reason: HarnessError): void {
    if (this.#state === 'killing' || this.#state === 'dead') return;
    this.#state = 'killing';
    this.#killReason = reason;
    this.#worker?.removeAllListeners('message');
    void this.#worker?.terminate();
    this.#after(STUCK_MS, () => {
      this.#options.logger.error({ reason: reason.message }, 'A thread cannot be ended.');
      const text = 'The thread could not be ended; it is left alone until the process ends.';
      this.#settle(new WorkerError('WORKER_STUCK', text, { cause: reason }));
    });
  }

  onGone(take: (held: Iterable<unknown>) => void): void {
    this.#takeHeld = take;
  }

  hold(held: boolean): void {
    if (held) this.#worker?.ref();
    else this.#worker?.unref();
    if (!held) this.output.unref();
    if (held) this.#port?.ref();
    else this.#port?.unref();
  }

  cpuMs(): number | undefined {
    if (this.#state === 'starting' || this.#state === 'dead') return undefined;
    const used = this.#tid === undefined ? undefined : this.#options.readings.thread(this.#tid);
    // Time in which its loop was busy: more than it used when it slept in a call, never less.
    return used?.cpuMs ?? this.#worker?.performance.eventLoopUtilization().active;
  }

  /** The thread's own port says `up`, once; nothing else belongs there. */
  #onOwnPort(value: unknown): void {
    try {
      const { frame } = decodeFrame(value);
      if (frame.type !== 'up' || this.#state !== 'starting') {
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
    this.#state = 'waiting';
    this.#up.resolve();
  }

  #gone(code: number): void {
    if (this.#state === 'dead') return;
    // Frames that arrived and were not handled yet are still in the port.
    this.#takeHeld?.(heldBy(this.#port));
    this.#settle(this.#verdict(code));
  }

  #verdict(code: number): HarnessError | undefined {
    if (this.#killReason !== undefined) return this.#killReason;
    if (this.#fault !== undefined) return crash(this.#fault);
    if (this.#thrown !== undefined) {
      const record = toErrorRecord(this.#thrown.error);
      if (record.code === 'ERR_WORKER_OUT_OF_MEMORY') return outOfMemory(this.limits);
      return crash(record);
    }
    if (this.#isPolite) return undefined;
    const text = `The thread ended by itself with exit code ${code} before its work was done.`;
    return new WorkerError('WORKER_EXITED', text);
  }

  #settle(error: HarnessError | undefined): void {
    if (this.#state === 'dead') return;
    this.#state = 'dead';
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
    if (this.#state === 'dead') return;
    const timer = this.#options.clock.after(ms, () => {
      this.#timers.delete(timer);
      if (this.#state !== 'dead') run();
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
    maxOldGenerationSizeMb: memoryMb,
    maxYoungGenerationSizeMb: YOUNG_GENERATION_MB,
    stackSizeMb: STACK_MB,
  };
}

/** A heap flag of the process silently wins over a thread's own limit; then there is none. */
function checkHeapLimit({ memoryMb }: ThreadLimits, heapLimitBytes: number): void {
  if (memoryMb === 'unlimited') return;
  const most = (memoryMb + 3 * YOUNG_GENERATION_MB) * 1.25 * MIB;
  if (heapLimitBytes <= most) return;
  throw new WorkerError(
    'MEMORY_LIMIT_VOID',
    `A thread asked for ${memoryMb} MiB of heap has ${Math.round(heapLimitBytes / MIB)} MiB: ` +
      'a heap flag of this process overrides it. Remove --max-old-space-size from the command ' +
      "line and NODE_OPTIONS, or set limits.memoryMb to 'unlimited'.",
  );
}

function crash(record: ErrorRecord): WorkerError {
  const code = record.code === 'UNKNOWN' ? '' : ` (${record.code})`;
  const text = `The thread crashed: ${record.name}: ${record.message}${code}`;
  return new WorkerError('WORKER_CRASHED', text);
}

function outOfMemory({ memoryMb }: ThreadLimits): WorkerError {
  const text = `The thread ran out of memory: its heap limit is ${memoryMb} MiB.`;
  return new WorkerError('WORKER_OUT_OF_MEMORY', text);
}
