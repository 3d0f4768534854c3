/**
 * Main's end of one agent's port. Validates what arrives, hands events on in order, passes calls
 * to the dispatcher, keeps credit in both directions. Knows nothing of turns. The port is the
 * thread's; a link belongs to one residency and reaches nothing after it was closed.
 */
import { ProtocolError, WorkerError } from '../../protocol/errors.ts';
import type { HarnessError } from '../../protocol/errors.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { ErrorRecord } from '../../protocol/error-record.ts';
import type { FrameEndpoint } from '../../protocol/frame-endpoint.ts';
import type { HostServices } from '../../protocol/host-services.ts';
import type { StreamId } from '../../protocol/ids.ts';
import type { ModelPart, RetryPolicy } from '../../protocol/model.ts';
import type { Port } from '../../protocol/port.ts';
import type { RpcCall, ToMain, WorkerEvent } from '../../protocol/to-main.ts';
import type { ToWorker } from '../../protocol/to-worker.ts';
import type { ToolSpec } from '../../protocol/tool.ts';
import { checkCall, decodeFrame } from '../../protocol/validate.ts';
import { DEFAULT_WINDOW, ReceiveWindow, SendWindow } from '../../protocol/window.ts';
import type { Acknowledged, WindowSize } from '../../protocol/window.ts';
import { deferred } from '../base/deferred.ts';
import type { Deferred } from '../base/deferred.ts';
import { MainShare } from './main-share.ts';
import type { Waiting } from './main-share.ts';
import { serveCalls } from './services.ts';

export interface LinkOptions {
  readonly port: Port;
  readonly services: HostServices;
  readonly window?: WindowSize;
  /** Events of the session that are committed, for the acknowledgement. */
  durable(): number;
  // What does not fit what is open is refused by throwing a `ProtocolError`.
  ready(tools: readonly ToolSpec[], retryPolicy: RetryPolicy | undefined): void;
  event(event: WorkerEvent): void;
  /** Told before the events of one frame, which have this size together. */
  received?(bytes: number): void;
  stopped(): void;
  fault(error: ErrorRecord): void;
  /** Called once, for the first thing the protocol does not allow. Nothing is read after it. */
  violation(error: HarnessError): void;
  /** Milliseconds. */
  now(): number;
  /** Default: that of main's loop. */
  readonly share?: MainShare;
}

interface Arrived {
  readonly value: unknown;
  readonly acknowledged: Acknowledged;
}
interface Arrival {
  readonly bytes: number;
  readonly isLive: boolean;
  readonly acknowledged: Acknowledged;
}

/** Calls one agent may have open: a claim, a model request, and its tool calls twice over. */
const MAX_OPEN_CALLS = 128;
/** Frames without credit that a thread may post in a window of time. */
const FLOOD_FRAMES = 2_000;
const FLOOD_MS = 100;
/** So many are a flood as well when main has no time for anything else. */
const COSTLY_FRAMES = 200;
/** Bytes that may wait for main's time, beyond what has credit: of calls, which cost none. */
const UNCREDITED_BYTES = 16 * 1024 * 1024;
const MAIN = new MainShare();

export class Link implements Waiting {
  readonly #options: LinkOptions;
  readonly #endpoint: FrameEndpoint<RpcCall>;
  readonly #sendWindow: SendWindow;
  readonly #receiveWindow: ReceiveWindow;
  readonly #onMessage = (value: unknown): void => this.#arrive(value);
  readonly #onMessageError = (): void =>
    this.#fail(new ProtocolError('PROTOCOL_VIOLATION', 'A thread posted what cannot be read.'));
  #state: 'open' | 'draining' | 'closed' = 'open';
  #openCalls = 0;
  #eventsReceived = 0;
  #creditWait: Deferred<void> | undefined;
  #ackScheduled = false;
  /** The thread said that it has ended. */
  #isOver = false;
  #floodSince = Number.NEGATIVE_INFINITY;
  #floodFrames = 0;
  #floodSpentMs = 0;
  readonly #share: MainShare;
  /** Arrived, and not looked at: main had no time left for threads. In order, from `#taken` on. */
  #arrived: (Arrived | undefined)[] = [];
  #taken = 0;
  #arrivedBytes = 0;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#share = options.share ?? MAIN;
    this.#sendWindow = new SendWindow(options.window ?? DEFAULT_WINDOW);
    this.#receiveWindow = new ReceiveWindow(options.window ?? DEFAULT_WINDOW);
    this.#endpoint = serveCalls(options.services, (message) => {
      this.#openCalls--;
      this.#post({ type: 'reply', message });
    });
    options.port.on('message', this.#onMessage);
    options.port.on('messageerror', this.#onMessageError);
  }

  wake(): void {
    this.#post({ type: 'wake' });
  }

  interrupt(turn: number): void {
    this.#post({ type: 'interrupt', turn });
  }

  stop(deadlineMs: number): void {
    this.#post({ type: 'stop', deadlineMs });
  }

  /** Parts of a host stream; the caller waits for `credit` first. */
  sendParts(stream: StreamId, parts: readonly ModelPart[], bytes: number): void {
    if (this.#state !== 'open') return;
    this.#sendWindow.spend(bytes);
    this.#post({ type: 'parts', stream, parts, bytes });
  }

  /** `undefined` while parts may be sent; else a promise for when they may, or the link is closed. */
  credit(): Promise<void> | undefined {
    if (this.#state !== 'open' || this.#sendWindow.isOpen) return undefined;
    this.#creditWait ??= deferred();
    return this.#creditWait.promise;
  }

  /** No new call is served from now on; what the thread already said still counts. */
  refuseCalls(): void {
    if (this.#state === 'open') this.#state = 'draining';
    this.#creditWait?.resolve();
  }

  /** The thread is gone: what its port still held, then nothing more. */
  drain(held: Iterable<unknown>): void {
    this.refuseCalls();
    // After a violation nothing counts, so that what a flood left is not even looked at.
    while (!this.#isClosed && this.#taken < this.#arrived.length) this.#takeArrived(false);
    if (!this.#isClosed) {
      for (const value of held) {
        this.#receive(value, false, this.#receiveWindow.acknowledged);
        if (this.#isClosed) break;
      }
    }
    this.close();
  }

  /** Nothing that is still under way can reach the log, the inbox or a successor after this. */
  close(): void {
    this.#state = 'closed';
    this.#creditWait?.resolve();
    this.#forget();
    this.#options.port.off('message', this.#onMessage);
    this.#options.port.off('messageerror', this.#onMessageError);
  }

  get #isClosed(): boolean {
    return this.#state === 'closed';
  }

  #post(frame: ToWorker): void {
    if (this.#state === 'closed') return;
    this.#options.port.postMessage(frame);
  }

  /** The oldest frame that waits for main's time. */
  takeNext(): boolean {
    this.#takeArrived(true);
    return this.#taken < this.#arrived.length;
  }

  /** Now, if main has time left for threads and nothing of this one waits; else in its turn. */
  #arrive(value: unknown): void {
    if (this.#state === 'closed') return;
    const { acknowledged } = this.#receiveWindow;
    if (this.#arrived.length === 0 && !this.#share.isUsedUp) {
      return this.#receive(value, true, acknowledged);
    }
    // What it may post goes by what it could know by now, however late it is counted.
    if (this.#arrived.push({ value, acknowledged }) === 1) this.#share.add(this);
    this.#arrivedBytes += sizeOf(value);
    const mostBytes = (this.#options.window ?? DEFAULT_WINDOW).bytes + UNCREDITED_BYTES;
    const waiting = this.#arrived.length - this.#taken;
    if (waiting <= FLOOD_FRAMES && this.#arrivedBytes <= mostBytes) return;
    const text = `A thread posted ${waiting} frames before one could be taken.`;
    this.#fail(new WorkerError('WORKER_FLOODED', text));
  }

  #takeArrived(isLive: boolean): void {
    const { value, acknowledged } = this.#arrived[this.#taken] as Arrived;
    this.#arrived[this.#taken++] = undefined;
    this.#arrivedBytes -= sizeOf(value);
    if (this.#taken === this.#arrived.length) this.#forget();
    this.#receive(value, isLive, acknowledged);
  }

  #forget(): void {
    this.#arrived = [];
    this.#taken = 0;
    this.#arrivedBytes = 0;
    this.#share.remove(this);
  }

  #receive(value: unknown, isLive: boolean, acknowledged: Acknowledged): void {
    if (this.#state === 'closed') return;
    const since = this.#options.now();
    try {
      const { frame, bytes } = decodeFrame(value);
      if (this.#isOver)
        throw new ProtocolError('PROTOCOL_VIOLATION', 'A thread went on after its end.');
      this.#dispatch(frame, { bytes, isLive, acknowledged });
      if (frame.type !== 'events') this.#countUncredited(since);
    } catch (error) {
      // Thrown on, whatever it is would end the process: this runs in the port's own listener.
      const isTold = error instanceof ProtocolError || error instanceof WorkerError;
      this.#fail(isTold ? error : untakeable(error));
    }
    this.#share.spend(this.#options.now() - since);
  }

  #dispatch(frame: ToMain, arrival: Arrival): void {
    switch (frame.type) {
      case 'ready':
        return this.#options.ready(frame.tools, frame.retryPolicy);
      case 'events':
        return this.#events(frame.from, frame.events, arrival);
      case 'call':
        // A thread that is being ended, or is gone, claims nothing and starts nothing.
        if (this.#state === 'open' && arrival.isLive) this.#call(frame.message);
        return;
      case 'ack':
        if (!this.#sendWindow.acknowledge(frame.taken)) {
          throw new ProtocolError('PROTOCOL_VIOLATION', 'An ack names parts that were not sent.');
        }
        if (this.#sendWindow.isOpen) {
          this.#creditWait?.resolve();
          this.#creditWait = undefined;
        }
        return;
      case 'stopped':
        this.#isOver = true;
        return this.#options.stopped();
      case 'fault':
        this.#isOver = true;
        return this.#options.fault(frame.error);
      case 'up':
        throw new ProtocolError('PROTOCOL_VIOLATION', 'An up frame came on the wrong port.');
      default:
        frame satisfies never;
    }
  }

  #events(from: number, events: readonly WorkerEvent[], arrival: Arrival): void {
    if (!this.#receiveWindow.receive(arrival.bytes, arrival.acknowledged)) {
      throw new ProtocolError('PROTOCOL_VIOLATION', 'Events were posted beyond the credit.');
    }
    if (from !== this.#eventsReceived) {
      throw new ProtocolError('PROTOCOL_VIOLATION', `Event ${from} came out of order.`);
    }
    this.#eventsReceived += events.length;
    this.#options.received?.(arrival.bytes);
    for (const event of events) this.#options.event(event);
    this.#receiveWindow.take();
    if (this.#ackScheduled) return;
    this.#ackScheduled = true;
    // Not in this handler: a thread that posts in a loop would keep main in here for ever.
    setImmediate(() => {
      this.#ackScheduled = false;
      const taken = this.#receiveWindow.acknowledgement();
      if (taken !== undefined) this.#post({ type: 'ack', taken, durable: this.#options.durable() });
    });
  }

  /**
   * Frames that cost no credit are few by construction. A thread that posts them in a loop would
   * keep main busy for as long as it likes, so it is ended for it: by their number, or by the
   * time that many of them take.
   */
  #countUncredited(since: number): void {
    const now = this.#options.now();
    if (now - this.#floodSince >= FLOOD_MS) {
      this.#floodSince = now;
      this.#floodFrames = 0;
      this.#floodSpentMs = 0;
    }
    this.#floodSpentMs += now - since;
    this.#floodFrames++;
    const isCostly = this.#floodFrames > COSTLY_FRAMES && this.#floodSpentMs > FLOOD_MS / 2;
    if (this.#floodFrames > FLOOD_FRAMES || isCostly) {
      const text = `A thread posted ${this.#floodFrames} frames within ${FLOOD_MS} ms.`;
      throw new WorkerError('WORKER_FLOODED', text);
    }
  }

  #call(message: unknown): void {
    const call = checkCall(message);
    if (++this.#openCalls > MAX_OPEN_CALLS) {
      throw new ProtocolError('PROTOCOL_VIOLATION', 'Too many calls are open at once.');
    }
    this.#endpoint.deliver(call);
  }

  #fail(error: HarnessError): void {
    if (this.#state === 'closed') return;
    this.close();
    this.#options.violation(error);
  }
}

/** Only bytes are ever kept waiting for long: whatever else it is ends its thread. */
const sizeOf = (value: unknown): number => (value instanceof Uint8Array ? value.byteLength : 0);

function untakeable(error: unknown): ProtocolError {
  const text = `What a thread told could not be taken: ${toErrorRecord(error).message}`;
  return new ProtocolError('PROTOCOL_VIOLATION', text, { cause: error });
}
