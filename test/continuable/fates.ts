/** What a walk remembers of children, and what became of their messages. */
import type { MessageId, SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Agent } from '../../src/agent/agent.ts';

/** What may come of any of these acts, beside success. */
export const REFUSALS: readonly string[] = [
  'DRAINING',
  'ACTIVATION_CLOSING',
  'UNAUTHORIZED',
  'NOT_RESUMABLE',
  'PARENT_UNAVAILABLE',
  'CAPACITY',
  // A thread that was made to crash while it started.
  'WORKER_CRASHED',
  'WORKER_START_FAILED',
];

export interface Known {
  readonly id: SessionId;
  readonly parent: Agent;
}

/** What became of one message, by the log of the session that was given it. */
export function fateOf(events: readonly SessionEvent[], id: string): string {
  let fate = 'lost';
  const lists: Record<string, string[]> = { 'next-turn': [], 'next-step': [] };
  for (const event of events) {
    if (event.type === 'user/message' && event.data.id === id) return 'told';
    if (event.type !== 'agent/inbox/spliced') continue;
    const { target, start, removedCount = 0, inserted, outcome } = event.data;
    const ids = inserted.map((message) => message.id as string);
    const removed = lists[target]!.splice(start, removedCount, ...ids);
    if (ids.includes(id)) fate = 'waits';
    if (removed.includes(id)) fate = outcome === 'canceled' ? 'thrown' : 'spent';
  }
  return fate;
}

/** How the turn ended that a message was claimed for: one stopped before its first step told nothing. */
export function endAfterClaim(events: readonly SessionEvent[], id: MessageId): string | undefined {
  const waits = (end: number): boolean => fateOf(events.slice(0, end), id) === 'waits';
  const claim = events.findIndex((_, at) => waits(at) && !waits(at + 1));
  const end = events.slice(claim).find(({ type }) => type === 'turn/end');
  return end?.type === 'turn/end' ? end.data.reason.kind : undefined;
}
