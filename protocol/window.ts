/** Frames and bytes that may be in flight in one direction before the sender must wait. */
export interface WindowSize {
  readonly frames: number;
  readonly bytes: number;
}

export const DEFAULT_WINDOW: WindowSize = { frames: 256, bytes: 4 * 1024 * 1024 };

/**
 * The sender's half of credit: what was posted and not yet taken. Pure arithmetic, no I/O and
 * no clock. A frame is let through while the window has any room, so one large frame cannot be
 * stuck for ever; the overshoot is at most one frame.
 */
export class SendWindow {
  readonly #size: WindowSize;
  readonly #inFlight: number[] = [];
  #bytes = 0;
  #taken = 0;

  constructor(size: WindowSize = DEFAULT_WINDOW) {
    this.#size = size;
  }

  get isOpen(): boolean {
    return this.#inFlight.length < this.#size.frames && this.#bytes < this.#size.bytes;
  }

  get framesInFlight(): number {
    return this.#inFlight.length;
  }

  /** Count one frame that is being posted. */
  spend(bytes: number): void {
    this.#inFlight.push(bytes);
    this.#bytes += bytes;
  }

  /**
   * The receiver has taken this many frames since the beginning. Returns false when that cannot
   * be: it took fewer than before, or more than were sent.
   */
  acknowledge(taken: number): boolean {
    const count = taken - this.#taken;
    if (!Number.isSafeInteger(count) || count < 0 || count > this.#inFlight.length) return false;
    for (const bytes of this.#inFlight.splice(0, count)) this.#bytes -= bytes;
    this.#taken = taken;
    return true;
  }
}

/** The receiver's half: how many frames were taken, and whether the sender overran its credit. */
export class ReceiveWindow {
  readonly #size: WindowSize;
  #received = 0;
  #taken = 0;
  #acknowledged = 0;
  #bytesOutstanding = 0;
  readonly #sizes: number[] = [];

  constructor(size: WindowSize = DEFAULT_WINDOW) {
    this.#size = size;
  }

  /** Count one frame that arrived. False: it was posted without credit. */
  receive(bytes: number): boolean {
    const hadRoom =
      this.#received - this.#acknowledged < this.#size.frames &&
      this.#bytesOutstanding < this.#size.bytes;
    this.#received++;
    this.#sizes.push(bytes);
    this.#bytesOutstanding += bytes;
    return hadRoom;
  }

  /** One frame is dealt with; its credit may go back. */
  take(): void {
    if (this.#taken < this.#received) this.#taken++;
  }

  /** The number to put in an `ack`, or `undefined` when the sender knows it already. */
  acknowledgement(): number | undefined {
    const count = this.#taken - this.#acknowledged;
    if (count === 0) return undefined;
    for (const bytes of this.#sizes.splice(0, count)) this.#bytesOutstanding -= bytes;
    this.#acknowledged = this.#taken;
    return this.#taken;
  }
}
