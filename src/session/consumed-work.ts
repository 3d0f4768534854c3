import type { SessionEvent, SessionEventOf } from '../../protocol/session-events.ts';

export interface ConsumedWork {
  /** The end of the last turn that did or took something. */
  readonly end?: SessionEventOf<'turn/end'>;
  /** Waiting messages were dropped after that. */
  readonly droppedUnrun: boolean;
}

/**
 * Which turn tells how the work of these events ended: the last one that entered a step, or
 * that claimed messages and did not complete. A turn that found nothing to do tells nothing.
 */
export function foldConsumedWork(events: readonly SessionEvent[]): ConsumedWork {
  let end: SessionEventOf<'turn/end'> | undefined;
  let droppedUnrun = false;
  let isOpen = false;
  let hasEntered = false;
  let hasClaimed = false;
  for (const event of events) {
    switch (event.type) {
      case 'turn/start':
        isOpen = true;
        hasEntered = hasClaimed = false;
        break;
      case 'step/start':
        hasEntered = true;
        break;
      case 'agent/inbox/spliced': {
        const { removedCount = 0, inserted, outcome } = event.data;
        if (removedCount === 0) break;
        if (outcome !== 'canceled') hasClaimed ||= isOpen;
        // With something put in its place it is an edit, not a drop.
        else if (inserted.length === 0) droppedUnrun = true;
        break;
      }
      case 'turn/end':
        isOpen = false;
        if (hasEntered || (hasClaimed && event.data.reason.kind !== 'completed')) {
          end = event;
          droppedUnrun = false;
        }
        break;
      default:
    }
  }
  return end === undefined ? { droppedUnrun } : { end, droppedUnrun };
}

/** How a one-shot run's own events say that it ended. */
export function oneShotStopReason(
  events: readonly SessionEvent[],
): 'completed' | 'max-tokens' | 'aborted' | 'refusal' | 'error' {
  const kind = foldConsumedWork(events).end?.data.reason.kind;
  switch (kind) {
    case 'completed':
    case 'max-tokens':
    case 'aborted':
      return kind;
    case 'blocked':
      return 'refusal';
    // No turn, a failed or interrupted one, or a kind this reader does not know.
    default:
      return 'error';
  }
}
