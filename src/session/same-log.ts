/**
 * Whether a reading goes on in the log it began in. A log is read in pieces, and between two of
 * them it can be removed and another be imported under its id, by any process: so each piece
 * begins with the event that the one before ended with.
 */
import { isDeepStrictEqual } from 'node:util';
import type { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { StoreError } from '../../protocol/errors.ts';

/** @throws {StoreError} `SESSION_NOT_FOUND` when it is another's, or not there any more */
export function assertSameLog(
  id: SessionId,
  last: SessionEvent,
  again: SessionEvent | undefined,
): void {
  if (again !== undefined && isSame(last, again)) return;
  throw new StoreError(
    'SESSION_NOT_FOUND',
    `Session \`${id}\` was removed while it was read, and another log has its id now.`,
  );
}

/** As data: one may be as it was appended, the other as it was read. */
export const isSame = (one: object, other: object): boolean =>
  one === other || isDeepStrictEqual(asData(one), asData(other));

const asData = (value: object): unknown => JSON.parse(JSON.stringify(value));
