/** A pair of ports whose messages wait until somebody delivers them, each way in its order. */
import type { Port } from '../../protocol/port.ts';

type Listener = (...values: never[]) => void;
type EventName = 'message' | 'messageerror' | 'close';

interface Item {
  readonly event: EventName;
  readonly value?: unknown;
}

export class SimPort implements Port {
  other!: SimPort;
  readonly queue: Item[] = [];
  /** Told of what is posted here. */
  onPost: ((value: unknown) => void) | undefined;
  isClosed = false;
  #hasToldClose = false;
  /** Once somebody has listened, what comes is delivered, to nobody if need be. */
  #isStarted = false;
  readonly #listeners: Record<EventName, Listener[]> = { message: [], messageerror: [], close: [] };

  postMessage(value: unknown, transfer?: readonly unknown[]): void {
    const copy: unknown = isPlainBytes(value)
      ? value.slice()
      : structuredClone(value, { transfer: [...(transfer ?? [])] as never[] });
    this.onPost?.(copy);
    if (this.isClosed || this.other.isClosed) return;
    this.other.queue.push({ event: 'message', value: copy });
  }

  on(event: EventName, listener: Listener): this {
    this.#listeners[event].push(listener);
    if (event === 'message') this.#isStarted = true;
    return this;
  }

  off(event: EventName, listener: Listener): this {
    const place = this.#listeners[event].indexOf(listener);
    if (place >= 0) this.#listeners[event].splice(place, 1);
    return this;
  }

  ref(): void {}
  unref(): void {}

  /** Both ends learn of it, the other one after all that was posted to it. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.queue.length = 0;
    this.queue.push({ event: 'close' });
    this.other.queue.push({ event: 'close' });
  }

  /** A message waits until somebody has listened; a close does not. */
  get canDeliver(): boolean {
    const [first] = this.queue;
    if (first === undefined) return false;
    return first.event === 'close' || this.#isStarted;
  }

  /** What is delivered next. */
  deliver(): unknown {
    const item = this.queue.shift();
    if (item === undefined) return undefined;
    if (item.event === 'close') {
      if (this.#hasToldClose) return 'close';
      this.#hasToldClose = true;
      this.isClosed = true;
    }
    for (const listener of [...this.#listeners[item.event]]) {
      (listener as (value: unknown) => void)(item.value);
    }
    return item.event === 'message' ? item.value : item.event;
  }

  /** As `receiveMessageOnPort`. */
  take(): { message: unknown } | undefined {
    const [first] = this.queue;
    if (first?.event !== 'message') return undefined;
    this.queue.shift();
    return { message: first.value };
  }
}

export function simPorts(): [SimPort, SimPort] {
  const [one, other] = [new SimPort(), new SimPort()];
  one.other = other;
  other.other = one;
  return [one, other];
}

/** As a whole buffer they share memory with nobody. */
const isPlainBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array;
