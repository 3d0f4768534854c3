import { describe, expect, it, vi } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import type { Session } from '../../src/session/session.ts';
import type { Sessions } from '../../src/session/sessions.ts';
import { gate } from '../support/gate.ts';
import { b, linesOf } from './lines.ts';
import { stored } from './following.ts';
import { a, codeOf, keep, say, setup } from './watched-store.ts';

/** An export of `a` and `b` that has begun, and stands before the turn of `b`. */
async function begun(sessions: Sessions) {
  await stored(sessions, 1);
  const lines = sessions.exportLines([a, b])[Symbol.asyncIterator]();
  // The first line; header, event and end of `a`.
  for (let count = 0; count < 4; count++) await lines.next();
  return lines;
}

async function rest(lines: AsyncIterator<string>): Promise<readonly string[]> {
  return linesOf({ [Symbol.asyncIterator]: () => lines });
}

async function back(sessions: Sessions): Promise<Session> {
  const session = await sessions.load(b);
  sessions.enter(session);
  return session;
}

describe('a session is exported as it is when its turn comes', () => {
  it('when it has left and come back since the start', async () => {
    const { sessions } = setup();
    const first = keep(sessions, 'b');
    const lines = await begun(sessions);
    await sessions.leave(first);
    const second = await back(sessions);
    say(second, 'said in its second life');
    await sessions.leave(second);
    const all = await rest(lines);
    expect(all.join('')).toContain('said in its second life');
    expect(all.at(-1)).toBe(`{"end":{"session":"b","events":${second.seq}}}\n`);
  });

  it('when it has become live, also what is not stored yet', async () => {
    const { sessions, store } = setup();
    await sessions.leave(keep(sessions, 'b'));
    const lines = await begun(sessions);
    const session = await back(sessions);
    await sessions.flush(session);
    store.hold = gate();
    say(session, 'not stored');
    expect((await rest(lines)).join('')).toContain('not stored');
    store.hold.open();
    await sessions.leave(session);
  });

  it('which is not at all, when it has left and was removed', async () => {
    const { sessions } = setup();
    const session = keep(sessions, 'b');
    say(session);
    const lines = await begun(sessions);
    await sessions.leave(session);
    await sessions.remove(b);
    expect(await codeOf(lines.next())).toBe('SESSION_NOT_FOUND');
  });

  it('which is not at all, when another was made under its id', async () => {
    const { sessions } = setup();
    await sessions.leave(keep(sessions, 'b'));
    const lines = await begun(sessions);
    await sessions.remove(b);
    const session = keep(sessions, 'b');
    say(session);
    expect(await codeOf(lines.next())).toBe('SESSION_NOT_FOUND');
    await sessions.leave(session);
  });

  it('and has no end when it leaves and is removed while that is written', async () => {
    const { sessions } = setup();
    const session = keep(sessions, 'b');
    say(session);
    const lines = await begun(sessions);
    for (const begins of ['{"header"', '{"type"']) {
      expect((await lines.next()).value).toMatch(new RegExp(`^${begins}`));
    }
    await sessions.leave(session);
    await sessions.remove(b);
    expect(await codeOf(lines.next())).toBe('SESSION_NOT_FOUND');
  });

  it('and is not called damaged when it was removed under the read that failed', async () => {
    const { sessions, store } = setup();
    await sessions.leave(keep(sessions, 'b'));
    const lines = await begun(sessions);
    await lines.next();
    vi.spyOn(store, 'readFrom').mockImplementationOnce(async () => {
      await sessions.remove(b);
      throw new StoreError('STORE_CORRUPT', 'Event 1 is not in the store.');
    });
    expect(await codeOf(lines.next())).toBe('SESSION_NOT_FOUND');
  });
});
