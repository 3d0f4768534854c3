import { MAX_DURATION_MS } from './limit-values.ts';

/** A timer that was set and can be taken back. */
export interface Timer {
  cancel(): void;
}

/** Time as this library sees it: injected, so that tests move it by hand. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Milliseconds that nobody sets back or forward, from some moment on. Absent: `now`. */
  elapsed?(): number;
  /** For how many milliseconds this thread's loop has been busy so far. Absent: nobody knows. */
  busyMs?(): number;
  /** A timer that does not keep the process alive, unless that is asked for. */
  after(ms: number, run: () => void, keepsAlive?: boolean): Timer;
}

export const systemClock: Clock = {
  now: () => Date.now(),
  elapsed: () => performance.now(),
  busyMs: () => performance.eventLoopUtilization().active,
  after(ms, run, keepsAlive = false) {
    const handle = setTimeout(run, Math.min(ms, MAX_DURATION_MS));
    if (!keepsAlive) handle.unref();
    return { cancel: () => clearTimeout(handle) };
  },
};

/** For how long something lasts: of two readings of one clock. */
export function elapsed(clock: Clock): number {
  return clock.elapsed?.() ?? clock.now();
}
