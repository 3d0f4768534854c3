/** Thread entry: reports up, waits for the one message that says who it is, and boots. */
import { readlinkSync } from 'node:fs';
import { getHeapStatistics } from 'node:v8';
import { parentPort, workerData } from 'node:worker_threads';
import type { MessagePort } from 'node:worker_threads';
import { pack } from '../protocol/codec.ts';
import { toShortErrorRecord } from '../protocol/error-record.ts';
import { MemoryCell } from '../protocol/memory-cell.ts';
import { PrintedCell } from '../protocol/printed.ts';
import { PROTOCOL_VERSION } from '../protocol/to-main.ts';
import type { ToMain } from '../protocol/to-main.ts';
import type { InitMessage, MeasureMessage, ThreadData } from '../protocol/worker-init.ts';
import { boot } from './boot.ts';
import type { BootedAgent } from './boot.ts';
import { cutPrinting } from './printing.ts';

if (parentPort === null) throw new Error('This file is the entry of a worker thread.');
const threadPort = parentPort;
/** A longer timer would fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;
let agent: BootedAgent | undefined;

cutPrinting({
  streams: [process.stdout, process.stderr],
  printed: new PrintedCell((workerData as ThreadData).printed),
  defer: (run) => void setImmediate(run),
});

// What was thrown may be anything, with a getter that throws or a gigabyte of text. Main gets a
// short record of it, never the thing itself, and the exit code says the rest.
const die = (thrown: unknown): never => {
  if (agent === undefined) post({ type: 'fault', error: toShortErrorRecord(thrown) });
  else agent.fault(thrown);
  process.exit(1);
};
process.on('uncaughtException', die);
process.on('unhandledRejection', die);

threadPort.on('message', (message: InitMessage<MessagePort> | MeasureMessage) => {
  if ('measure' in message) return new MemoryCell(message.measure).tell(ownBytes());
  const { init, port } = message;
  // From here on it is the agent's port that keeps the thread.
  threadPort.unref();
  agent = boot(port, init, {
    import: (url) => import(url),
    defer: (run) => void setImmediate(run),
    delay,
  });
  // A module's forgotten timer must not keep the thread.
  void agent.done.then(() => process.exit());
});

post({
  type: 'up',
  protocol: PROTOCOL_VERSION,
  heapLimitBytes: getHeapStatistics().heap_size_limit,
  node: process.version,
  ...systemId(),
});

/** What the system calls this thread; main counts what it uses by that. */
function systemId(): { readonly tid?: number } {
  try {
    const tid = Number(readlinkSync('/proc/thread-self').split('/').pop());
    return Number.isSafeInteger(tid) && tid > 0 ? { tid } : {};
  } catch {
    // No /proc here, or none for this thread: main does without.
    return {};
  }
}

/** What the engine holds for this thread: its heap, and what lies outside of it. */
function ownBytes(): number {
  const { total_heap_size: heap, external_memory, malloced_memory } = getHeapStatistics();
  let buffers = 0;
  try {
    buffers = process.memoryUsage().arrayBuffers;
  } catch {
    // It reads a file for it, and no descriptor may be left.
  }
  // Each of the two counts something that the other does not.
  return heap + malloced_memory + Math.max(external_memory, buffers);
}

/** Written out: Node's own costs a thread more to load than all of this. */
function delay(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const finish = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', finish);
      if (signal.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(finish, Math.min(ms, MAX_DELAY_MS));
    signal.addEventListener('abort', finish);
    if (signal.aborted) finish();
  });
}

function post(frame: ToMain): void {
  const bytes = pack(frame);
  threadPort.postMessage(bytes, [bytes.buffer as ArrayBuffer]);
}
