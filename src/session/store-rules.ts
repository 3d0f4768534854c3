import type { SessionId } from '../../protocol/ids.ts';
import type { SessionHeader } from '../../protocol/session-events.ts';
import type { Checkpoint, SessionPersistence, StoreAppend } from './store.ts';
import { printed } from '../../protocol/error-record.ts';
import { StoreError } from '../../protocol/errors.ts';

/** What a store knows of a session when it is asked to add to it. */
interface Stored {
  readonly epoch: number;
  readonly length: number;
  /** Held by whoever writes. */
  readonly isOurs: boolean;
}

/** Why one entry of a batch must be refused, by the rules all stores share. */
export function appendProblem(
  { id, epoch, header, events, checkpoint }: StoreAppend,
  stored: Stored | undefined,
): StoreError | undefined {
  if (header !== undefined && header.id !== id) {
    return new StoreError(
      'STORE_CORRUPT',
      `Cannot keep session \`${id}\`: its header is another's.`,
    );
  }
  if (header !== undefined && stored !== undefined) {
    return new StoreError(
      'SESSION_OWNED_ELSEWHERE',
      `Cannot create session \`${id}\`: the store holds one of that id.`,
    );
  }
  if (header === undefined && stored === undefined) return notFound(id);
  if (stored !== undefined && stored.epoch !== epoch) {
    return new StoreError(
      'STALE_EPOCH',
      `Cannot write session \`${id}\` with epoch ${epoch}: its epoch is ${stored.epoch}.`,
    );
  }
  if (stored?.isOurs === false) {
    // A row that was made again can have come to the very epoch of a former owner.
    return new StoreError('STALE_EPOCH', `Cannot write session \`${id}\`: it is not held here.`);
  }
  const length = stored?.length ?? 0;
  const misplaced = events.findIndex((event, index) => event.seq !== length + index);
  if (misplaced !== -1) {
    return new StoreError(
      'STORE_CORRUPT',
      `Cannot write session \`${id}\`: event ${String(events[misplaced]?.seq)} was given where ` +
        `${length + misplaced} is next.`,
    );
  }
  const last = length + events.length - 1;
  if (checkpoint === undefined || isWithin(checkpoint, last)) return undefined;
  return new StoreError(
    'STORE_CORRUPT',
    `Cannot write session \`${id}\`: its checkpoint is of event ${checkpoint.seq}, and ${last} is its last.`,
  );
}

/** Whether a checkpoint is of the log up to `last` or a beginning of it. */
export function isWithin({ seq }: Checkpoint, last: number): boolean {
  return Number.isSafeInteger(seq) && seq >= -1 && seq <= last;
}

export function notFound(id: SessionId): StoreError {
  return new StoreError('SESSION_NOT_FOUND', `The store holds no session \`${printed(id)}\`.`);
}

/** Never rejects, whatever the store does: a lease that cannot be given back runs out. */
export async function giveBack(
  store: Pick<SessionPersistence, 'release'>,
  ids: readonly SessionId[],
): Promise<void> {
  try {
    await store.release(ids);
  } catch {
    // Rejected or thrown. What failed before it is the failure to tell.
  }
}

type Aged = Pick<SessionHeader, 'id' | 'createdAt'>;

/** The order of stores: by code points where the age is the same, as SQLite compares text. */
export function byAge(a: Aged, b: Aged): number {
  if (a.createdAt !== b.createdAt) return a.createdAt - b.createdAt;
  for (let index = 0; ; index++) {
    const one = a.id.codePointAt(index) ?? -1;
    const other = b.id.codePointAt(index) ?? -1;
    if (one !== other || one === -1) return one - other;
  }
}
