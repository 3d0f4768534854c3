import type { AgentStatus } from '../agent/agent.ts';
import type { Intake } from '../agent/intake.ts';
import type { CurrentThread } from './current-thread.ts';
import type { OpenTurn } from './open-turn.ts';

/**
 * Every accepted message that wakes ends in a turn, or waits for something that can be named: a
 * later message, because it is parked; a commit; a thread that is on its way, or on its way out;
 * a claim that its loop owes. This says, in words, that an agent waits for nothing of these, so
 * that nothing would ever move it. Looked at between two tasks of the event loop it is
 * `undefined`, always.
 */
export function stallOf(
  { status, turn }: { readonly status: AgentStatus; readonly turn: OpenTurn | undefined },
  intake: Pick<Intake, 'hasUnparkedWork' | 'isCommitting'>,
  { residency, isChanging }: Pick<CurrentThread, 'residency' | 'isChanging'>,
): string | undefined {
  if (turn !== undefined) {
    return residency === undefined ? 'a turn of it is open, and it has no thread' : undefined;
  }
  if (status === 'idle') {
    return intake.hasUnparkedWork ? 'it is idle, though what waits is not parked' : undefined;
  }
  if (intake.isCommitting || isChanging) return undefined;
  if (residency === undefined) return 'it is running, and no thread is on its way to it';
  return residency.owesClaim ? undefined : 'it is running, and its loop sleeps';
}
