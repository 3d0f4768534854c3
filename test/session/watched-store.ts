import { vi } from 'vitest';
import type { Mock } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Logger } from '../../src/base/logger.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { MemoryStore } from '../../src/session/memory-store.ts';
import type { Session } from '../../src/session/session.ts';
import type { Durability } from '../../src/session/commit-queue.ts';
import { Sessions } from '../../src/session/sessions.ts';
import type { StoreAppend } from '../../src/session/store.ts';
import type { Gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { userMessage } from './log-parts.ts';

/** A store whose writes can be seen, held and refused. */
export class WatchedStore extends MemoryStore {
  readonly batches: (readonly StoreAppend[])[] = [];
  refuse: ((batch: readonly StoreAppend[]) => Error | undefined) | undefined;
  hold: Gate | undefined;

  override async append(batch: readonly StoreAppend[]): Promise<void> {
    this.batches.push(batch);
    await this.hold?.wait();
    const refusal = this.refuse?.(batch);
    if (refusal !== undefined) throw refusal;
    await super.append(batch);
  }

  /** Which sessions each write held, and how many events of each. */
  get written(): readonly string[] {
    return this.batches.map((batch) =>
      batch.map(({ id, events }) => `${id}:${events.length}`).join(' '),
    );
  }
}

export const full = (): StoreError => new StoreError('STORE_FULL', 'The disk is full.');

/** The code a promise rejects with, for one that rejects before it is asserted. */
export const codeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: StoreError) => error.code,
  );

export function setup(durability?: Durability): {
  store: WatchedStore;
  clock: ManualClock;
  logger: Logger & { warn: Mock<Logger['warn']> };
  sessions: Sessions;
} {
  const store = new WatchedStore();
  const clock = new ManualClock();
  const logger = { ...silentLogger, warn: vi.fn<Logger['warn']>() };
  const sessions = new Sessions({ store, clock, logger, ...(durability && { durability }) });
  return { store, clock, logger, sessions };
}

/** A session that is live and kept. */
export function keep(sessions: Sessions, id = 'a'): Session {
  const session = sessions.prepare({ id: SessionId(id) });
  sessions.enter(session);
  sessions.accept(session);
  return session;
}

export const a = SessionId('a');
export const say = (session: Session, text = 'hi'): SessionEvent =>
  session.append('user/message', userMessage(text));
