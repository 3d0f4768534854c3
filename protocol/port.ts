/** What both ends need of a MessagePort. Keeps this folder free of Node types. */
export interface Port {
  postMessage(value: unknown, transfer?: readonly unknown[]): void;
  on(event: 'message', listener: (value: unknown) => void): unknown;
  on(event: 'messageerror', listener: (error: Error) => void): unknown;
  on(event: 'close', listener: () => void): unknown;
  off(event: 'message', listener: (value: unknown) => void): unknown;
  off(event: 'messageerror', listener: (error: Error) => void): unknown;
  off(event: 'close', listener: () => void): unknown;
  close(): void;
  ref?(): void;
  unref?(): void;
}
