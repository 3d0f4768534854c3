/**
 * A Comlink endpoint made of `call` and `reply` frames, so that a call keeps its place among
 * the events of the same port. It owns nothing: whoever owns the port feeds it with `deliver`.
 */
export interface FrameEndpoint<In> {
  postMessage(message: unknown, transfer?: unknown): void;
  addEventListener(type: string, listener: EndpointListener): void;
  removeEventListener(type: string, listener: EndpointListener): void;
  start(): void;
  /** Hand one arrived message to whoever listens. */
  deliver(message: In): void;
}

/** Comlink listens with a function or an object, as the DOM lets it. */
export type EndpointListener =
  | ((event: { data: unknown; origin: string }) => void)
  | { handleEvent(event: { data: unknown; origin: string }): void };

/**
 * @param send posts one message as a frame. Contract: it must not throw; what it is given is
 *   plain data, and a transfer list is refused before it gets here.
 */
export function frameEndpoint<In, Out>(send: (message: Out) => void): FrameEndpoint<In> {
  const listeners = new Set<EndpointListener>();
  return {
    postMessage(message, transfer) {
      if (Array.isArray(transfer) && transfer.length > 0) {
        throw new TypeError('Calls between threads carry data only; nothing is transferred.');
      }
      send(message as Out);
    },
    addEventListener(type, listener) {
      if (type === 'message') listeners.add(listener);
    },
    removeEventListener(type, listener) {
      if (type === 'message') listeners.delete(listener);
    },
    start() {},
    deliver(message) {
      const event = { data: message, origin: '' };
      for (const listener of [...listeners]) {
        if (typeof listener === 'function') listener(event);
        else listener.handleEvent(event);
      }
    },
  };
}
