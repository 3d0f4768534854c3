import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { Clock } from '../base/clock.ts';
import type { Turns } from '../base/turns.ts';
import { StoreError } from '../../protocol/errors.ts';
import { Session } from './session.ts';

/**
 * A session from its stored log, in steps.
 * @throws {StoreError} `STORE_CORRUPT`; and the signal's reason
 */
export async function restored(
  stored: { readonly header: SessionHeader; readonly events: readonly SessionEvent[] },
  { clock, turns }: { readonly clock: Clock; readonly turns: Turns },
  signal: AbortSignal | undefined,
): Promise<Session> {
  const { header, events: seed } = stored;
  try {
    return await Session.inSteps({ header, seed, clock }, () => {
      signal?.throwIfAborted();
      return turns.next();
    });
  } catch (error) {
    signal?.throwIfAborted();
    const message = `The stored log of session \`${header.id}\` is damaged.`;
    throw new StoreError('STORE_CORRUPT', message, { cause: error });
  }
}
