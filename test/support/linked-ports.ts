import type { Port } from '../../protocol/port.ts';

/**
 * Two ports in one thread, joined. What one posts is structure-cloned at once (transfers
 * included) and delivered to the other: by itself, one message per macrotask and in the order
 * posted, or only when the test says so. As with a real port, a message waits until somebody
 * listens; `close` on either end is told to both, after what was posted before it.
 */
export interface LinkedPorts {
  readonly main: Port;
  readonly worker: Port;
  /** Deliver up to `count` messages, oldest first (a close is one), and say how many. */
  flush(count?: number, to?: End): number;
  /** Messages posted to one end and not delivered. */
  waiting(to: End): number;
  /** Take those messages out, as whoever drains a port does. */
  take(to: End): unknown[];
  readonly isClosed: boolean;
  close(): void;
}

export type End = 'main' | 'worker';
type EventName = 'message' | 'messageerror' | 'close';
type Listener = (...values: never[]) => void;

export function linkedPorts(mode: 'auto' | 'manual' = 'auto'): LinkedPorts {
  const queue: { to: End; event: 'message' | 'close'; values: readonly unknown[] }[] = [];
  const listeners: Record<End, Record<EventName, Set<Listener>>> = {
    main: { message: new Set(), messageerror: new Set(), close: new Set() },
    worker: { message: new Set(), messageerror: new Set(), close: new Set() },
  };
  let isClosed = false;
  let isScheduled = false;

  const tell = (end: End, event: EventName, ...values: unknown[]): void => {
    for (const listener of [...listeners[end][event]]) {
      (listener as (...given: unknown[]) => void)(...values);
    }
  };
  const flush = (count = Number.POSITIVE_INFINITY, to?: End): number => {
    let delivered = 0;
    while (delivered < count) {
      const index = queue.findIndex(
        (item) =>
          (to === undefined || item.to === to) &&
          (item.event === 'close' || listeners[item.to].message.size > 0),
      );
      const [item] = index === -1 ? [] : queue.splice(index, 1);
      if (item === undefined) break;
      delivered++;
      tell(item.to, item.event, ...item.values);
    }
    return delivered;
  };
  const schedule = (): void => {
    if (mode === 'manual' || isScheduled || queue.length === 0) return;
    isScheduled = true;
    setImmediate(() => {
      isScheduled = false;
      if (flush(1) > 0) schedule();
    });
  };
  const close = (): void => {
    if (isClosed) return;
    isClosed = true;
    queue.push({ to: 'main', event: 'close', values: [] });
    queue.push({ to: 'worker', event: 'close', values: [] });
    schedule();
  };
  const portTo = (other: End, own: End): Port => ({
    postMessage(value, transfer) {
      const copy: unknown = structuredClone(value, { transfer: [...(transfer ?? [])] as never[] });
      if (isClosed) return;
      queue.push({ to: other, event: 'message', values: [copy] });
      schedule();
    },
    on(event: EventName, listener: Listener) {
      listeners[own][event].add(listener);
      if (event === 'message') schedule();
    },
    off(event: EventName, listener: Listener) {
      listeners[own][event].delete(listener);
    },
    close,
  });
  return {
    main: portTo('worker', 'main'),
    worker: portTo('main', 'worker'),
    flush,
    waiting: (to) => queue.filter((item) => item.to === to && item.event === 'message').length,
    take(to) {
      const taken = queue.filter((item) => item.to === to && item.event === 'message');
      for (const item of taken) queue.splice(queue.indexOf(item), 1);
      return taken.map(({ values }) => values[0]);
    },
    get isClosed() {
      return isClosed;
    },
    close,
  };
}
