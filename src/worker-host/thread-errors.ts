/** What is said of a thread that did not end, or did not begin, as it was asked to. */
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { ErrorRecord } from '../../protocol/error-record.ts';
import { WorkerError } from '../../protocol/errors.ts';
import type { ErrorCode, HarnessError } from '../../protocol/errors.ts';
import type { ThreadLimits } from './limits.ts';
import { hardLimitMb } from './memory-guard.ts';

const MIB = 1024 * 1024;
export const YOUNG_GENERATION_MB = 16;
/** Between what a thread was given and what it says that it has. */
const TOLERANCE = 1.1;

export function crash(record: ErrorRecord): WorkerError {
  const code = record.code === 'UNKNOWN' ? '' : ` (${record.code})`;
  const text = `The thread crashed: ${record.name}: ${record.message}${code}`;
  return new WorkerError('WORKER_CRASHED', text);
}

/** Of an error that reached nobody in the thread. */
export function uncaught(thrown: unknown, { memoryMb }: ThreadLimits): WorkerError {
  const record = toErrorRecord(thrown);
  if (record.code !== 'ERR_WORKER_OUT_OF_MEMORY') return crash(record);
  const text = `The thread ran out of memory: its limit is ${memoryMb} MiB, and its heap was full.`;
  return new WorkerError('WORKER_OUT_OF_MEMORY', text);
}

export function exited(code: number): WorkerError {
  const text = `The thread ended by itself with exit code ${code} before its work was done.`;
  return new WorkerError('WORKER_EXITED', text);
}

/** Reasons that say nothing of what a thread did but that it was to go, or did not when it was told. */
const REQUESTS: readonly ErrorCode[] = [
  'WORKER_EXITED',
  'WORKER_UNRESPONSIVE',
  'WORKER_START_TIMEOUT',
];

/** Of a thread that does not end: why it was to, if that says what it did; the first reason wins. */
export function stuck(reason: HarnessError): HarnessError {
  if (!REQUESTS.includes(reason.code)) return reason;
  const text = 'The thread could not be ended; it is left alone until the process ends.';
  return new WorkerError('WORKER_STUCK', text, { cause: reason });
}

/**
 * A heap flag of the process silently wins over a thread's own limit. Above that, a thread has no
 * limit; below, too little room between its end by its guard and the end of the whole process.
 *
 * @throws {WorkerError} `MEMORY_LIMIT_VOID`
 */
export function checkHeapLimit({ memoryMb }: ThreadLimits, heapLimitBytes: number): void {
  if (memoryMb === 'unlimited') return;
  const hardMb = hardLimitMb(memoryMb);
  const hasMb = Math.round(heapLimitBytes / MIB);
  if (hasMb <= (hardMb + 3 * YOUNG_GENERATION_MB) * TOLERANCE && hasMb >= hardMb / TOLERANCE)
    return;
  throw new WorkerError(
    'MEMORY_LIMIT_VOID',
    `A thread with ${memoryMb} MiB needs a heap limit of ${hardMb} MiB and has ${hasMb} MiB: ` +
      'a heap flag of this process overrides it. Remove --max-old-space-size from the command ' +
      "line and NODE_OPTIONS, or set limits.memoryMb to 'unlimited'.",
  );
}
