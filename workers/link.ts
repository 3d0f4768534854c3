/**
 * Worker end of one agent's port. Posts events in order and only within the credit main gave,
 * keeps calls behind the events posted before them, gives back the credit of model parts once
 * they are consumed. Knows nothing of turns. Owns the port.
 */
import { mostHeapBytes, pack, unpackFrame } from '../protocol/codec.ts';
import { toShortErrorRecord } from '../protocol/error-record.ts';
import type { Port } from '../protocol/port.ts';
import type { RpcCall, ToMain, ToMainOf, WorkerEvent } from '../protocol/to-main.ts';
import { MAX_FRAME_BYTES, MAX_FRAME_EVENTS } from '../protocol/to-main.ts';
import type { RpcReply, ToWorker, ToWorkerOf } from '../protocol/to-worker.ts';
import { ReceiveWindow, SendWindow } from '../protocol/window.ts';
import type { WindowSize } from '../protocol/window.ts';

/** Who hears what comes down. Contract: none of them throws. */
export interface LinkListener {
  wake(): void;
  reply(message: RpcReply): void;
  parts(frame: ToWorkerOf<'parts'>): void;
  interrupt(turn: number): void;
  stop(): void;
  /** The port is closed: nothing comes any more, and nothing that is posted arrives. */
  closed(): void;
}

/** Something that one frame cannot carry. Nothing was posted. */
export class FrameError extends Error {
  readonly code: 'FRAME_TOO_LARGE' | 'FRAME_NOT_DATA';
  constructor(code: FrameError['code'], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
  override get name(): string {
    return 'FrameError';
  }
}

/**
 * Bytes of events gathered into one frame. Below main's bound on keys as well, since no key or
 * item takes less than a byte; and what they take in memory is counted, too: events that pass
 * alone pass together.
 */
const BATCH_BYTES = 192 * 1024;
/** What the envelope of an `events` frame takes at most. */
const ENVELOPE_BYTES = 64;

type Queued =
  | {
      readonly kind: 'event';
      readonly event: WorkerEvent;
      readonly bytes: number;
      /** What main needs for it. */
      readonly heapBytes: number;
    }
  | { readonly kind: 'call'; readonly frame: Uint8Array }
  | { readonly kind: 'stopped'; readonly frame: Uint8Array };

export class Link {
  readonly #port: Port;
  readonly #defer: (run: () => void) => void;
  readonly #credit: SendWindow;
  readonly #parts: ReceiveWindow;
  readonly #queue: Queued[] = [];
  readonly #waiting: (() => void)[] = [];
  #queuedBytes = 0;
  #nextEvent = 0;
  #isScheduled = false;
  #isEnded = false;

  /** Takes ownership of `port`. `defer` runs something in a later macrotask. */
  constructor(port: Port, options: { window: WindowSize; defer(run: () => void): void }) {
    this.#port = port;
    this.#defer = options.defer;
    this.#credit = new SendWindow(options.window);
    this.#parts = new ReceiveWindow(options.window);
  }

  /** True once nothing can be posted any more. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Begin to read. */
  listen(listener: LinkListener): void {
    this.#port.on('message', (frame) => this.#receive(frame as ToWorker, listener));
    this.#port.on('close', () => {
      this.#end();
      listener.closed();
    });
  }

  /**
   * Queue one event; it goes up with the others of this macrotask, or when credit comes back.
   *
   * @throws {FrameError} when no frame can carry it; the queue is untouched.
   */
  post(event: WorkerEvent): void {
    if (this.#isEnded) return;
    // As deep as it will be in its frame.
    const { packed, heapBytes } = packedForMain([[event]]);
    const bytes = packed.byteLength;
    this.#queue.push({ kind: 'event', event, bytes, heapBytes });
    this.#queuedBytes += bytes;
    // Without this, code that never lets a macrotask come would fill the queue without bound.
    if (this.#queuedBytes >= BATCH_BYTES) this.#flush();
    else this.#schedule();
  }

  /** Credit is used up: wait for this before making more events. `undefined`: go on. */
  ready(): Promise<void> | undefined {
    if (this.#isEnded || this.#credit.isOpen) return undefined;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** Post one call behind all events queued so far. It has passed `assertCallFits`. */
  call(message: RpcCall): void {
    if (this.#isEnded) return;
    this.#queue.push({ kind: 'call', frame: pack({ type: 'call', message }) });
    this.#flush();
  }

  /** Modules are loaded. */
  announce(ready: Omit<ToMainOf<'ready'>, 'type'>): void {
    this.#send(packedForMain({ type: 'ready', ...ready } satisfies ToMain).packed);
  }

  /** One `parts` frame is dealt with; its credit goes back with the next macrotask. */
  takeParts(): void {
    this.#parts.take();
    this.#schedule();
  }

  /** Say goodbye behind everything queued, then close. */
  stopped(reason: string): void {
    if (this.#isEnded) return;
    this.#queue.push({ kind: 'stopped', frame: pack({ type: 'stopped', reason }) });
    this.#flush();
  }

  /** Say at once that the thread cannot go on, then close. Events without credit are lost. */
  fault(thrown: unknown, turn: number | undefined): void {
    if (this.#isEnded) return;
    this.#flush();
    if (this.#isEnded) return;
    const error = toShortErrorRecord(thrown);
    this.#send(pack({ type: 'fault', error, ...(turn === undefined ? {} : { turn }) }));
    this.#end();
    this.#port.close();
  }

  #receive(frame: ToWorker, listener: LinkListener): void {
    if (this.#isEnded) return;
    switch (frame.type) {
      case 'wake':
        return listener.wake();
      case 'reply':
        return listener.reply(frame.message);
      case 'parts':
        this.#parts.receive(frame.bytes);
        return listener.parts(frame);
      case 'interrupt':
        return listener.interrupt(frame.turn);
      case 'stop':
        return listener.stop();
      case 'ack':
        this.#credit.acknowledge(frame.taken);
        this.#flush();
        return this.#release();
      default:
        frame satisfies never;
    }
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#defer(() => {
      this.#isScheduled = false;
      this.#flush();
      if (this.#isEnded) return;
      const taken = this.#parts.acknowledgement();
      if (taken !== undefined) this.#send(pack({ type: 'ack', taken } satisfies ToMain));
    });
  }

  #flush(): void {
    for (let next = this.#queue[0]; next !== undefined && !this.#isEnded; next = this.#queue[0]) {
      if (next.kind === 'event') {
        if (!this.#credit.isOpen) return;
        const frame = pack(this.#takeBatch());
        this.#credit.spend(frame.byteLength);
        this.#send(frame);
        continue;
      }
      this.#queue.shift();
      this.#send(next.frame);
      if (next.kind === 'stopped') {
        this.#end();
        this.#port.close();
      }
    }
  }

  #takeBatch(): ToMain {
    const events: WorkerEvent[] = [];
    let bytes = 0;
    let heapBytes = 0;
    for (const queued of this.#queue) {
      if (queued.kind !== 'event' || events.length === MAX_FRAME_EVENTS) break;
      heapBytes += queued.heapBytes;
      const isFull =
        bytes + queued.bytes > BATCH_BYTES || heapBytes > mostHeapBytes(bytes + queued.bytes);
      if (events.length > 0 && isFull) break;
      events.push(queued.event);
      bytes += queued.bytes;
    }
    this.#queue.splice(0, events.length);
    this.#queuedBytes -= bytes;
    const from = this.#nextEvent;
    this.#nextEvent += events.length;
    return { type: 'events', from, events };
  }

  #send(frame: Uint8Array): void {
    if (!this.#isEnded) this.#port.postMessage(frame, [frame.buffer]);
  }

  #release(): void {
    if (this.#credit.isOpen || this.#isEnded) {
      for (const resolve of this.#waiting.splice(0)) resolve();
    }
  }

  #end(): void {
    this.#isEnded = true;
    this.#queue.length = 0;
    this.#release();
  }
}

/**
 * Refuse a call that main would take for a violation.
 *
 * @throws {FrameError}
 */
export function assertCallFits(name: string, values: readonly unknown[]): void {
  const argumentList = values.map((value) => ({ type: 'RAW', value }));
  packedForMain({ type: 'call', message: { id: '', type: 'APPLY', path: [name], argumentList } });
}

/** Pack, and read back as main will: what a module made may be no data, too deep or too big. */
function packedForMain(value: unknown): { packed: Uint8Array; heapBytes: number } {
  let packed: Uint8Array;
  let heapBytes = 0;
  try {
    packed = pack(value);
    if (packed.byteLength + ENVELOPE_BYTES <= MAX_FRAME_BYTES) {
      heapBytes = unpackFrame(packed).heapBytes;
    }
  } catch (cause) {
    throw new FrameError('FRAME_NOT_DATA', `It cannot leave the thread: ${String(cause)}`, {
      cause,
    });
  }
  if (packed.byteLength + ENVELOPE_BYTES > MAX_FRAME_BYTES) {
    throw new FrameError(
      'FRAME_TOO_LARGE',
      `It takes ${packed.byteLength} bytes; one message out of the thread has at most ${MAX_FRAME_BYTES}.`,
    );
  }
  return { packed, heapBytes };
}
