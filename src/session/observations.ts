import type { StoreError } from '../../protocol/errors.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Session } from './session.ts';

/** What can be watched of the sessions of one process. */
export interface SessionObservations {
  /** Live from now on. A synchronous throw of a listener undoes it. */
  'session/created': { readonly session: Session };
  'session/event': { readonly session: Session; readonly event: SessionEvent };
  /** Once per created session. */
  'session/disposed': { readonly session: Session };
  /** Another owner took the session over: nothing of it is kept any more. */
  'session/lost': { readonly session: Session; readonly error: StoreError };
}
