import type { UserMessage } from '../../protocol/content.ts';
import type { InboxTarget, SessionEvent, SessionEventOf } from '../../protocol/session-events.ts';

/** What waits in an inbox, list by list, as far as its log has been followed. */
export type Waiting = Record<InboxTarget, UserMessage[]>;

export const nothingWaits = (): Waiting => ({ 'next-turn': [], 'next-step': [] });

/** Follow one change of an inbox. @returns what it took out of its list */
export function splice(
  waiting: Waiting,
  {
    target,
    start,
    removedCount = 0,
    inserted,
  }: Pick<
    SessionEventOf<'agent/inbox/spliced'>['data'],
    'target' | 'start' | 'removedCount' | 'inserted'
  >,
): readonly UserMessage[] {
  return waiting[target].splice(start, removedCount, ...inserted);
}

/** @param own an agent's own events, without what a seed gave it */
export function waitingIn(own: readonly SessionEvent[]): Waiting {
  const waiting = nothingWaits();
  for (const event of own) {
    if (event.type === 'agent/inbox/spliced') splice(waiting, event.data);
  }
  return waiting;
}
