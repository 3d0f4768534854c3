import { vi } from 'vitest';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Session } from '../../src/session/session.ts';
import type { Sessions } from '../../src/session/sessions.ts';
import { gate } from '../support/gate.ts';
import { typesOf } from './log-parts.ts';
import { a, keep, say } from './watched-store.ts';
import type { WatchedStore } from './watched-store.ts';

/** Reading a session that is followed. */

type Events = AsyncIterator<SessionEvent, undefined>;

export async function take(events: Events, count: number): Promise<readonly number[]> {
  const seqs: number[] = [];
  while (seqs.length < count) {
    const { done, value } = await events.next();
    if (done === true) throw new Error(`It ended after ${seqs.join()}.`);
    seqs.push(value.seq);
  }
  return seqs;
}

export async function types(events: AsyncIterable<SessionEvent>): Promise<readonly string[]> {
  const all: SessionEvent[] = [];
  for await (const event of events) all.push(event);
  return typesOf(all);
}

export async function rest(events: Events): Promise<readonly number[]> {
  const seqs: number[] = [];
  for (;;) {
    const { done, value } = await events.next();
    if (done === true) return seqs;
    seqs.push(value.seq);
  }
}

/** A stored session of `count` events that is not live. */
export async function stored(sessions: Sessions, count: number): Promise<void> {
  const session = keep(sessions);
  for (let index = 0; index < count; index++) say(session);
  await sessions.leave(session);
}

export async function resume(sessions: Sessions): Promise<Session> {
  const session = await sessions.load(a);
  sessions.enter(session);
  return session;
}

/** Reads that were made wait at the gate with what they found. */
export function holdAnswers(store: WatchedStore): { open(): void; readonly asked: () => number } {
  const held = gate();
  const read = store.readFrom.bind(store);
  const spy = vi.spyOn(store, 'readFrom').mockImplementation(async (...args) => {
    const events = await read(...args);
    await held.wait();
    return events;
  });
  return { open: () => held.open(), asked: () => spy.mock.calls.length };
}
