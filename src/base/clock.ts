/** A timer that was set and can be taken back. */
export interface Timer {
  cancel(): void;
}

/** Time as this library sees it: injected, so that tests move it by hand. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** A timer that does not keep the process alive. */
  after(ms: number, run: () => void): Timer;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, run) {
    const handle = setTimeout(run, ms);
    handle.unref();
    return { cancel: () => clearTimeout(handle) };
  },
};
