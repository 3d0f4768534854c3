import type { HeapInfo } from 'node:v8';
import type { Worker } from 'node:worker_threads';
import { MemoryCell } from '../../protocol/memory-cell.ts';
import type { MeasureMessage } from '../../protocol/worker-init.ts';
import type { Pulse } from './watchdog.ts';

/** Of newer Nodes. */
type MeasurableWorker = Worker & {
  getHeapStatistics?(): Promise<HeapInfo>;
};

/**
 * What one thread says that it has, when it is asked. The engine answers for a thread that is
 * busy, too, where it can be asked; else the thread has to, and thereby shows that its loop turns.
 */
export class ThreadMemory implements Pulse {
  readonly #worker: MeasurableWorker | undefined;
  readonly #cell = new MemoryCell();
  #isMeasuring = false;
  #measure: number | undefined;

  constructor(worker: Worker | undefined) {
    this.#worker = worker;
  }

  ask(): void {
    this.#worker?.postMessage({ measure: this.#cell.buffer } satisfies MeasureMessage);
  }

  get answers(): number {
    return this.#cell.told;
  }

  measure(): void {
    const worker = this.#worker;
    if (worker?.getHeapStatistics === undefined) return this.ask();
    if (this.#isMeasuring) return;
    this.#isMeasuring = true;
    worker.getHeapStatistics().then(
      ({ total_heap_size, external_memory, malloced_memory }) => {
        this.#isMeasuring = false;
        this.#measure = total_heap_size + external_memory + malloced_memory;
      },
      // It is gone, or on its way.
      () => (this.#isMeasuring = false),
    );
  }

  /** In bytes; each answer is given once. */
  take(): number | undefined {
    const measure = this.#cell.take() ?? this.#measure;
    this.#measure = undefined;
    return measure;
  }
}
