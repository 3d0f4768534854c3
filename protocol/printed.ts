/** Bytes kept of what a thread prints, of both streams together, for whoever looks into its death. */
export const KEPT_PRINT_BYTES = 256 * 1024;

/**
 * One shared Int64: the bytes that a thread printed and did not send, because main keeps no more.
 * The thread is the only writer.
 */
export class PrintedCell {
  readonly #cell: BigInt64Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(8)) {
    this.#cell = new BigInt64Array(buffer);
  }

  get buffer(): SharedArrayBuffer {
    return this.#cell.buffer as SharedArrayBuffer;
  }

  /** The thread only. */
  drop(bytes: number): void {
    Atomics.add(this.#cell, 0, BigInt(bytes));
  }

  get dropped(): number {
    return Number(Atomics.load(this.#cell, 0));
  }
}
