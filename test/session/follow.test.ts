import { describe, expect, it, vi } from 'vitest';
import { ArgumentError, StoreError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import { silentLogger } from '../../src/base/logger.ts';
import { Sessions } from '../../src/session/sessions.ts';
import { gate } from '../support/gate.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { tempStore } from '../support/temp-store.ts';
import { settled, until } from '../support/until.ts';
import { holdAnswers, rest, resume, stored, take } from './following.ts';
import { typesOf } from './log-parts.ts';
import { a, codeOf, keep, say, setup } from './watched-store.ts';

describe('following a session', () => {
  it('that is not live gives what is stored, from where it is asked, and ends', async () => {
    const { sessions } = setup();
    await stored(sessions, 3);
    expect(await rest(sessions.follow(a))).toEqual([0, 1, 2]);
    expect(await rest(sessions.follow(a, { from: 2 }))).toEqual([2]);
    expect(await rest(sessions.follow(a, { from: 3 }))).toEqual([]);
  });

  it.each([
    ['stored', false],
    ['live', true],
  ])('that is %s cannot be followed from beyond its end', async (_, isLive) => {
    const { sessions } = setup();
    await stored(sessions, 2);
    if (isLive) await resume(sessions);
    const end = isLive ? 3 : 2;
    for (const forever of [false, true]) {
      const events = sessions.follow(a, { from: end + 1, forever });
      await expect(events.next()).rejects.toThrow(
        new ArgumentError(`"from" of follow is beyond the end: session \`a\` has no event ${end}.`),
      );
      expect((await events.next()).done).toBe(true);
    }
  });

  it('that is live with a long log lets others have their turn', async () => {
    const { sessions } = setup();
    const session = keep(sessions);
    for (let count = 0; count < 1_000; count++) say(session);
    let isTurn = false;
    setImmediate(() => (isTurn = true));
    await take(sessions.follow(a), 300);
    expect(isTurn).toBe(true);
  });

  it('takes no signal in the place of its options', () => {
    const { sessions } = setup();
    const { signal } = new AbortController();
    expect(() => sessions.follow(a, signal as never)).toThrow(/given as `{ signal }`/);
  });

  it('that is not live reads page by page, as it is pulled', async () => {
    await using files = tempStore();
    const sessions = new Sessions({
      store: files.store,
      clock: new ManualClock(),
      logger: silentLogger,
    });
    const read = vi.spyOn(files.store, 'readFrom');
    await stored(sessions, 600);
    const events = sessions.follow(a);
    expect(read).not.toHaveBeenCalled();
    await take(events, 256);
    expect(read).toHaveBeenCalledTimes(1);
    expect(await rest(events)).toEqual(Array.from({ length: 344 }, (_, index) => 256 + index));
    expect(read.mock.calls.map(([, seq, , limit]) => [seq, limit])).toEqual([
      [0, 256],
      // Each with the last of the one before: it is the same log as long as that is there.
      [255, 257],
      [511, 257],
      [599, 257],
    ]);
    await sessions.close();
  });

  it('that is live gives what there is, then each event as it is appended, until it leaves', async () => {
    const { sessions, store } = setup();
    const read = vi.spyOn(store, 'readFrom');
    const session = keep(sessions);
    say(session);
    const events = sessions.follow(a);
    expect(await take(events, 1)).toEqual([0]);
    const next = events.next();
    say(session);
    say(session);
    expect((await next).value?.seq).toBe(1);
    await sessions.leave(session);
    expect(await rest(events)).toEqual([2]);
    expect(await events.next()).toEqual({ done: true, value: undefined });
    expect(read).not.toHaveBeenCalled();
  });

  it('gives the very events of the log', async () => {
    const { sessions } = setup();
    const session = keep(sessions);
    const event = say(session);
    expect((await sessions.follow(a).next()).value).toBe(event);
  });

  it('answers calls that were made at once in their order', async () => {
    const { sessions } = setup();
    const session = keep(sessions);
    const events = sessions.follow(a);
    const calls = [events.next(), events.next(), events.next()];
    say(session);
    say(session);
    await sessions.leave(session);
    expect((await Promise.all(calls)).map(({ value }) => value?.seq)).toEqual([0, 1, undefined]);
  });

  it('that nobody knows is refused when it is read', async () => {
    const { sessions } = setup();
    const events = sessions.follow(SessionId('none'));
    expect(await codeOf(events.next())).toBe('SESSION_NOT_FOUND');
    expect((await events.next()).done).toBe(true);
    expect(await codeOf(sessions.follow(a, { forever: true }).next())).toBe('SESSION_NOT_FOUND');
  });

  it.each<[string, object]>([
    ['half an event', { from: 0.5 }],
    ['a number below the first', { from: -1 }],
    ['a text', { from: '1' }],
    ['what is no signal', { signal: {} }],
    ['perhaps forever', { forever: 1 }],
    ['a name mistyped', { form: 1 }],
  ])('is refused at once with %s', (_, options) => {
    const { sessions } = setup();
    expect(() => sessions.follow(a, options)).toThrow(ArgumentError);
  });

  it('is refused without an id, and by sessions that are closed', async () => {
    const { sessions } = setup();
    expect(() => sessions.follow(1 as never)).toThrow(ArgumentError);
    await sessions.close();
    expect(() => sessions.follow(a)).toThrow(ArgumentError);
  });

  it('that is cut off inside a turn gives it as it is stored, and its repair at the resume', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    session.append('turn/start', { turn: 1 });
    await session.committed();
    const later = new Sessions({ store, clock: new ManualClock(), logger: silentLogger });
    expect(await rest(later.follow(a))).toEqual([0]);
    const events = later.follow(a, { forever: true });
    expect(await take(events, 1)).toEqual([0]);
    const next = events.next();
    await settled();
    later.enter(await later.load(a));
    expect((await next).value?.type).toBe('turn/end');
    expect(typesOf([(await events.next()).value!])).toEqual(['session/end-seed']);
    await later.close();
    expect((await events.next()).done).toBe(true);
  });
});

describe('following and the life of a session', () => {
  it('goes on in the live log when the session is resumed between two reads', async () => {
    const { sessions } = setup();
    await stored(sessions, 2);
    const events = sessions.follow(a);
    expect(await take(events, 1)).toEqual([0]);
    const session = await resume(sessions);
    say(session);
    expect(await take(events, 3)).toEqual([1, 2, 3]);
    const last = events.next();
    await sessions.leave(session);
    expect((await last).done).toBe(true);
  });

  it('goes on in the live log when the session is resumed while a read is in flight', async () => {
    const { sessions, store } = setup();
    await stored(sessions, 2);
    const answers = holdAnswers(store);
    const events = sessions.follow(a);
    const first = events.next();
    await until(() => answers.asked() === 1);
    const session = await resume(sessions);
    say(session);
    answers.open();
    expect((await first).value?.seq).toBe(0);
    expect(await take(events, 3)).toEqual([1, 2, 3]);
  });

  it.each([
    ['lives on', false],
    ['is over', true],
  ])('misses nothing of a life that began during the last read and %s', async (_, isOver) => {
    const { sessions, store } = setup();
    await stored(sessions, 2);
    const events = sessions.follow(a, { from: 2 });
    const answers = holdAnswers(store);
    const next = events.next();
    await until(() => answers.asked() === 1);
    const session = await resume(sessions);
    say(session);
    if (isOver) await sessions.leave(session);
    answers.open();
    expect((await next).value?.seq).toBe(2);
    expect(await take(events, 1)).toEqual([3]);
    await sessions.leave(session);
    expect(await rest(events)).toEqual([]);
  });

  it('gives a slow reader all of a life that is over, and nothing of what came after it', async () => {
    const { sessions } = setup();
    const session = keep(sessions);
    say(session);
    const events = sessions.follow(a);
    expect(await take(events, 1)).toEqual([0]);
    say(session);
    await sessions.leave(session);
    say(session);
    expect(await rest(events)).toEqual([1]);
  });

  it('waits for the end of a session that is leaving', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    say(session);
    store.hold = gate();
    const left = sessions.leave(session);
    const events = sessions.follow(a);
    expect(await take(events, 1)).toEqual([0]);
    const last = events.next();
    store.hold.open();
    await left;
    expect((await last).done).toBe(true);
  });

  it('ends after the last event of a session that is never stored', async () => {
    const { sessions, store } = setup();
    const session = sessions.prepare({ id: a });
    sessions.enter(session);
    say(session);
    const [once, forever] = [sessions.follow(a), sessions.follow(a, { forever: true })];
    expect([await take(once, 1), await take(forever, 1)]).toEqual([[0], [0]]);
    const [last, more] = [once.next(), codeOf(forever.next())];
    await sessions.leave(session);
    expect((await last).done).toBe(true);
    expect(await more).toBe('SESSION_NOT_FOUND');
    expect(store.batches).toEqual([]);
  });

  it('rejects when another process took the session over, after what was committed', async () => {
    const { sessions, store } = setup();
    const session = keep(sessions);
    say(session);
    await session.committed();
    const waiting = sessions.follow(a, { from: 1 });
    const slow = sessions.follow(a, { forever: true });
    const next = waiting.next();
    await store.acquire(a);
    say(session);
    expect((await next).value?.seq).toBe(1);
    expect(await codeOf(session.committed())).toBe('STALE_EPOCH');
    expect(await codeOf(waiting.next())).toBe('STALE_EPOCH');
    expect(await take(slow, 1)).toEqual([0]);
    expect(await codeOf(slow.next())).toBe('STALE_EPOCH');
    expect((await slow.next()).done).toBe(true);
  });
});

describe('following forever', () => {
  it('goes on with every life of the session, each event once', async () => {
    const { sessions } = setup();
    await stored(sessions, 1);
    const events = sessions.follow(a, { forever: true });
    expect(await take(events, 1)).toEqual([0]);
    // Each resume adds the mark of what was there before.
    for (const seq of [1, 3, 5]) {
      const next = events.next();
      await settled();
      const session = await resume(sessions);
      say(session);
      await sessions.leave(session);
      expect((await next).value?.seq).toBe(seq);
      expect(await take(events, 1)).toEqual([seq + 1]);
    }
    await events.return();
  });

  it('does not go on in another log that took the place of the first', async () => {
    const { sessions, store, clock } = setup();
    await stored(sessions, 2);
    const lines: string[] = [];
    for await (const line of sessions.exportLines([a])) lines.push(line);
    const changed = lines.map((line) => line.replace('"time":', '"time":1'));
    const [waits, reads, same] = [0, 1, 2].map(() => sessions.follow(a, { forever: true }));
    await take(waits!, 2);
    await take(reads!, 2);
    await take(same!, 2);
    const next = codeOf(waits!.next());
    await settled();
    // Not by these sessions, or whoever waits would find nothing first.
    await store.delete([a]);
    await sessions.importLines(lines);
    const session = await resume(sessions);
    expect((await same!.next()).value?.seq).toBe(2);
    await sessions.leave(session);
    await store.delete([a]);
    await sessions.importLines(changed);
    await clock.advance(1);
    await sessions.leave(await resume(sessions));
    expect(await codeOf(reads!.next())).toBe('SESSION_NOT_FOUND');
    expect(await next).toBeUndefined();
    expect(await codeOf(waits!.next())).toBe('SESSION_NOT_FOUND');
    await same!.return();
  });

  it('is not ended by a creation that is undone', async () => {
    const { sessions } = setup();
    await stored(sessions, 1);
    const events = sessions.follow(a, { forever: true, from: 1 });
    const next = events.next();
    await settled();
    const undo = sessions.observers.on('session/created', () => {
      throw new Error('No.');
    });
    const session = await sessions.load(a);
    expect(() => sessions.enter(session)).toThrow('No.');
    undo();
    await sessions.release(session);
    await settled();
    say(await resume(sessions));
    expect((await next).value?.seq).toBe(1);
  });

  it('rejects when what it gave was not kept', async () => {
    const { sessions, store } = setup();
    await stored(sessions, 1);
    const session = await resume(sessions);
    const events = sessions.follow(a, { forever: true });
    store.refuse = () => new StoreError('STORE_FULL', 'The disk is full.');
    say(session);
    expect(await take(events, 3)).toEqual([0, 1, 2]);
    const next = codeOf(events.next());
    expect(await codeOf(sessions.leave(session))).toBe('STORE_FULL');
    expect(await next).toBe('SESSION_NOT_FOUND');
  });
});
