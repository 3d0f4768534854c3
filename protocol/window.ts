/** Frames and bytes that may be in flight in one direction before the sender must wait. */
export interface WindowSize {
  readonly frames: number;
  readonly bytes: number;
}

export const DEFAULT_WINDOW: WindowSize = { frames: 256, bytes: 1024 * 1024 };

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

/** What the receiver had given back at some time: frames, and bytes, since the beginning. */
export interface Acknowledged {
  readonly frames: number;
  readonly bytes: number;
}

/** The receiver's half: how many frames were taken, and whether the sender overran its credit. */
export class ReceiveWindow {
  readonly #size: WindowSize;
  #received = 0;
  #receivedBytes = 0;
  #taken = 0;
  #acknowledged: Acknowledged = { frames: 0, bytes: 0 };
  readonly #sizes: number[] = [];

  constructor(size: WindowSize = DEFAULT_WINDOW) {
    this.#size = size;
  }

  /** As it is now; for a frame that arrives now and is counted later. */
  get acknowledged(): Acknowledged {
    return this.#acknowledged;
  }

  /**
   * Count one frame that arrived. False: it was posted without credit.
   * @param then what was given back when it arrived
   */
  receive(bytes: number, then: Acknowledged = this.#acknowledged): boolean {
    const hadRoom =
      this.#received - then.frames < this.#size.frames &&
      this.#receivedBytes - then.bytes < this.#size.bytes;
    this.#received++;
    this.#receivedBytes += bytes;
    this.#sizes.push(bytes);
    return hadRoom;
  }

  /** One frame is dealt with; its credit may go back. */
  take(): void {
    if (this.#taken < this.#received) this.#taken++;
  }

  /** The number to put in an `ack`, or `undefined` when the sender knows it already. */
  acknowledgement(): number | undefined {
    const count = this.#taken - this.#acknowledged.frames;
    if (count === 0) return undefined;
    let { bytes } = this.#acknowledged;
    for (const size of this.#sizes.splice(0, count)) bytes += size;
    this.#acknowledged = { frames: this.#taken, bytes };
    return this.#taken;
  }
}
