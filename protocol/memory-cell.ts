const KIB = 1024;

/**
 * Two shared Int32: how often a thread told what memory it has, and the last of that in KiB. The
 * thread is the only writer. A cell and not a frame, so that an answer needs no room in any queue.
 */
export class MemoryCell {
  readonly #cell: Int32Array;
  #taken = 0;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(8)) {
    this.#cell = new Int32Array(buffer);
  }

  get buffer(): SharedArrayBuffer {
    return this.#cell.buffer as SharedArrayBuffer;
  }

  /** The thread only. */
  tell(bytes: number): void {
    Atomics.store(this.#cell, 1, Math.min(Math.round(bytes / KIB), 2 ** 31 - 1));
    Atomics.add(this.#cell, 0, 1);
  }

  /** How often it was told something. */
  get told(): number {
    return Atomics.load(this.#cell, 0);
  }

  /** Main only: in bytes, what was told since the last call; `undefined`: nothing. */
  take(): number | undefined {
    const told = Atomics.load(this.#cell, 0);
    if (told === this.#taken) return undefined;
    this.#taken = told;
    return Atomics.load(this.#cell, 1) * KIB;
  }
}
