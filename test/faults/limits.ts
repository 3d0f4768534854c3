import type { Effect } from './kinds.ts';

/** The limits of the ground: as in earnest, with short times, so that what hangs is soon ended. */
export const LIMITS = {
  harness: {
    interruptGraceMs: 300,
    stopGraceMs: 300,
    startMs: 5_000,
    // Those above the agent at fault, and those beside it, wait for it.
    turnMs: 30_000,
    unresponsiveMs: 10_000,
    memoryMb: 256,
  },
  faulty: { turnMs: 1_500, memoryMb: 64 },
  /** Of one that has to grow first. */
  hungry: { turnMs: 10_000, memoryMb: 64 },
} as const;
export const limitsOf = (effect: Effect): { readonly turnMs: number; readonly memoryMb: number } =>
  effect === 'memory' ? LIMITS.hungry : LIMITS.faulty;

/** From the moment at which a fault is seen to the last word about it. */
export const SETTLE_MS = 3_000;
/** The end of everything, whatever the threads do. */
export const DISPOSE_MS = 5_000;
/** The longest that main may be deaf. */
export const STALL_MS = 1_000;
