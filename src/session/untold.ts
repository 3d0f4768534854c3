import type { UserMessage } from '../../protocol/content.ts';
import type { InboxTarget, SessionEvent } from '../../protocol/session-events.ts';
import { nothingWaits, splice } from './waiting.ts';

/** Messages that were taken from the front of one list. */
export interface Claimed {
  readonly target: InboxTarget;
  readonly messages: readonly UserMessage[];
}

/**
 * What the open turn of a log has claimed for a step that never began: nobody was told of it. The
 * step begins in the same transaction as its messages are written, so a log holds both or
 * neither.
 *
 * @param events an agent's own, without what a seed gave it
 */
export function untoldClaims(events: readonly SessionEvent[]): readonly Claimed[] {
  const waiting = nothingWaits();
  let untold: Claimed[] = [];
  let isOpen = false;
  for (const event of events) {
    switch (event.type) {
      case 'turn/start':
        isOpen = true;
        break;
      case 'turn/end':
        isOpen = false;
        untold = [];
        break;
      case 'step/start':
        untold = [];
        break;
      case 'agent/inbox/spliced': {
        const { target, outcome } = event.data;
        const messages = splice(waiting, event.data);
        if (isOpen && messages.length > 0 && outcome === undefined) {
          untold.push({ target, messages });
        }
        break;
      }
      default:
    }
  }
  return untold;
}
