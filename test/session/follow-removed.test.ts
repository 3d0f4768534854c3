import { describe, expect, it, vi } from 'vitest';
import type { Sessions } from '../../src/session/sessions.ts';
import { gate } from '../support/gate.ts';
import { rest, resume, stored, take } from './following.ts';
import { linesOf } from './lines.ts';
import { a, codeOf, keep, say, setup } from './watched-store.ts';

/** Its first event is another one; all that is after it is the same. */
async function replace(sessions: Sessions): Promise<void> {
  const lines = await linesOf(sessions.exportLines([a]));
  await sessions.remove(a);
  const others = lines.map((line) => line.replace('"seq":0,"time":', '"seq":0,"time":1'));
  expect(others).not.toEqual(lines);
  await sessions.importLines(others);
}

describe('whoever follows a session that is removed, and imported again with another log', () => {
  it('hears nothing of the other, wherever the two say the same', async () => {
    const { sessions } = setup();
    await stored(sessions, 300);
    const events = sessions.follow(a);
    await take(events, 256);
    await replace(sessions);
    expect(await codeOf(events.next())).toBe('SESSION_NOT_FOUND');
    // The other is there for whoever asks for it.
    expect(await rest(sessions.follow(a))).toHaveLength(300);
  });

  it('hears nothing of the other, when that was read in its place', async () => {
    const { sessions, store } = setup();
    await stored(sessions, 2);
    const read = store.readFrom.bind(store);
    const [asked, held] = [gate(), gate()];
    const spy = vi.spyOn(store, 'readFrom').mockImplementationOnce(async (...args) => {
      asked.open();
      await held.wait();
      return read(...args);
    });
    const next = codeOf(sessions.follow(a).next());
    await asked.wait();
    await replace(sessions);
    held.open();
    expect(await next).toBe('SESSION_NOT_FOUND');
    spy.mockRestore();
  });

  it('hears nothing of a life of the other', async () => {
    const { sessions } = setup();
    await stored(sessions, 2);
    const events = sessions.follow(a, { forever: true });
    await take(events, 2);
    await replace(sessions);
    const session = await resume(sessions);
    expect(await codeOf(events.next())).toBe('SESSION_NOT_FOUND');
    await sessions.leave(session);
  });

  it('is given all of the life that it followed', async () => {
    const { sessions } = setup();
    const session = keep(sessions);
    for (let count = 0; count < 3; count++) say(session);
    const events = sessions.follow(a);
    await take(events, 1);
    await sessions.leave(session);
    await replace(sessions);
    expect(await rest(events)).toEqual([1, 2]);
  });
});
