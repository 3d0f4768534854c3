/**
 * Work that only computes, off the main thread. Each job has a thread to itself while it runs;
 * there is none before the first job, and none is kept for long after the last. What ends a
 * thread fails the one job that was on it, and the next one gets a new thread. Never for agents.
 */
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import type { Piscina } from 'piscina';
import type { TransferListItem } from 'node:worker_threads';
import { toErrorRecord } from '../../protocol/error-record.ts';
import { WorkerError } from '../../protocol/errors.ts';
import { census } from './census.ts';
import type { Clock } from './clock.ts';
import { listenForAbort } from './deferred.ts';
import type { Logger } from './logger.ts';
import { Slots } from './slots.ts';

export interface OffloadOptions {
  /** A file whose default export is a function from a job to what becomes of it. */
  readonly entry: URL;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Default: one less than there are processors, 1 to 4. */
  readonly threads?: number;
  /** Heap of a thread in MiB. Default 512. */
  readonly memoryMb?: number;
  /** What one job may take, the start of its thread included. Default 30 s. */
  readonly deadlineMs?: number;
}

/** How long a thread waits for another job. */
const IDLE_MS = 2_000;
const MOST_THREADS = 4;

export class Offload {
  readonly #options: OffloadOptions;
  readonly #threads: number;
  readonly #slots: Slots;
  readonly #stops = new Set<() => void>();
  #pool: Promise<Piscina> | undefined;
  #uncount: (() => void) | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: OffloadOptions) {
    this.#options = options;
    this.#threads =
      options.threads ?? Math.min(MOST_THREADS, Math.max(1, availableParallelism() - 1));
    // A job is given to the pool only when a thread is free, so that its time is its own.
    this.#slots = new Slots(this.#threads);
  }

  /**
   * Run one job. What is in `transfer` is not ours any more.
   * @throws the signal's own reason; what the job throws, as a `WorkerError` with the cause.
   * @throws {WorkerError} `WORKER_CRASHED`, `WORKER_OUT_OF_MEMORY`, `WORKER_EXITED`, or
   *   `WORKER_UNRESPONSIVE` for a job that took too long: its thread is ended
   */
  run<T>(job: unknown, transfer: readonly TransferListItem[], signal?: AbortSignal): Promise<T> {
    return this.#slots.run(() => this.#run<T>(job, transfer, signal), signal);
  }

  /** End every thread; jobs that are not over fail. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    for (const stop of this.#stops) stop();
    const pool = await this.#pool?.catch(() => undefined);
    await pool?.destroy();
    this.#uncount?.();
  }

  async #run<T>(
    job: unknown,
    transfer: readonly TransferListItem[],
    signal: AbortSignal | undefined,
  ): Promise<T> {
    const { clock, deadlineMs = 30_000 } = this.#options;
    this.#assertOpen();
    const pool = await (this.#pool ??= this.#open());
    signal?.throwIfAborted();
    this.#assertOpen();
    const stop = new AbortController();
    const onAbort = (): void => stop.abort();
    let isLate = false;
    const timer = clock.after(deadlineMs, () => {
      isLate = true;
      stop.abort();
    });
    this.#stops.add(onAbort);
    const release = signal && listenForAbort(signal, onAbort);
    try {
      const run = { signal: stop.signal, transferList: [...transfer] };
      return (await pool.run(job, run)) as T;
    } catch (error) {
      signal?.throwIfAborted();
      this.#assertOpen();
      if (isLate) {
        const text = `A computation took longer than ${deadlineMs} ms and was ended.`;
        throw new WorkerError('WORKER_UNRESPONSIVE', text);
      }
      throw ended(error);
    } finally {
      timer.cancel();
      this.#stops.delete(onAbort);
      release?.();
    }
  }

  async #open(): Promise<Piscina> {
    const { entry, logger, memoryMb = 512 } = this.#options;
    // Loaded by who needs it: most programs never do.
    const { Piscina: Pool } = await import('piscina');
    const pool = new Pool({
      filename: fileURLToPath(entry),
      minThreads: 0,
      maxThreads: this.#threads,
      idleTimeout: IDLE_MS,
      // With the others an idle thread is frozen: no timer of it fires.
      atomics: 'disabled',
      resourceLimits: { maxOldGenerationSizeMb: memoryMb },
      env: {},
      execArgv: [],
      recordTiming: false,
    });
    pool.on('error', (error: unknown) =>
      logger.warn({ error: toErrorRecord(error) }, 'An idle thread ended by itself.'),
    );
    this.#uncount = census.add('offload');
    return pool;
  }

  #assertOpen(): void {
    if (this.#closing === undefined) return;
    throw new WorkerError('WORKER_EXITED', 'The threads for computations are closed.');
  }
}

function ended(thrown: unknown): WorkerError {
  const { code, message } = toErrorRecord(thrown);
  if (code === 'ERR_WORKER_OUT_OF_MEMORY') {
    const text = 'A computation took more memory than its thread may have.';
    return new WorkerError('WORKER_OUT_OF_MEMORY', text, { cause: thrown });
  }
  if (message.startsWith('worker exited with code')) {
    const text = 'The thread of a computation ended before it was done.';
    return new WorkerError('WORKER_EXITED', text, { cause: thrown });
  }
  const text = `A computation failed: ${message}`;
  return new WorkerError('WORKER_CRASHED', text, { cause: thrown });
}
