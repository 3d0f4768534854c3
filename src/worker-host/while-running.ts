import { joinSignals, raceSignal } from '../base/deferred.ts';
import type { OpenTurn } from './open-turn.ts';
import type { Residency } from './residency.ts';

/**
 * Wait for what others decide about a turn, or for time, while there is someone to tell: when the
 * turn is told to stop or its thread is being ended, the wait ends with that, and what comes
 * later comes to nothing. An end may still come between the outcome and the next line of whoever
 * waits: they look again before they act.
 *
 * @param begin is not called when it is over already. It is given what ends the wait.
 */
export async function whileRunning<T>(
  turn: OpenTurn,
  residency: Residency,
  begin: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { signal, release } = joinSignals([residency.signal, turn.signal]);
  try {
    signal.throwIfAborted();
    return await raceSignal(begin(signal), signal);
  } finally {
    release();
  }
}
