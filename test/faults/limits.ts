import type { AgentLimits } from '../../src/agent/agent-host.ts';
import type { Kind, Place } from './kinds.ts';

/** More time on a machine that is shared with other work. */
export const SLACK = Math.max(1, Number(process.env['SLACK'] ?? 1));

/** The limits of the ground: as in earnest, with short times, so that what hangs is soon ended. */
export const LIMITS = {
  harness: {
    interruptGraceMs: 300,
    stopGraceMs: 300,
    startMs: 5_000 * SLACK,
    // Those above the agent at fault, and those beside it, wait for it.
    turnMs: 30_000 * SLACK,
    unresponsiveMs: 5_000 * SLACK,
    memoryMb: 256,
  },
  faulty: { turnMs: 1_500, memoryMb: 64 },
  /** Of one that has something to do first, or ends by itself. */
  patient: { turnMs: 10_000 * SLACK, memoryMb: 64 },
} as const;

/** Of the agent at fault: the short ones only where they are what ends it. */
export function limitsOf({ effect, limit }: Kind, place: Place): AgentLimits {
  const isEnded = effect === 'blocked' || effect === 'silent';
  const limits =
    isEnded && limit === undefined && place !== 'timer' ? LIMITS.faulty : LIMITS.patient;
  return { ...limits, ...(limit === undefined ? {} : { [limit.name]: limit.value }) };
}

/** The limit that ends a turn that does not end by itself, and when. */
export const endingLimit = ({ limit }: Kind): { readonly name: string; readonly afterMs: number } =>
  limit ?? { name: 'turnMs', afterMs: LIMITS.faulty.turnMs };

/** From the moment at which a fault is seen to the last word about it. */
export const SETTLE_MS = 3_000;
/** A timer that is set for exactly that fires a little later. */
export const TIMER_MS = 100;
/** The end of everything, whatever the threads do. */
export const DISPOSE_MS = 5_000;
/** The longest that main may be deaf. */
export const STALL_MS = 1_000;
