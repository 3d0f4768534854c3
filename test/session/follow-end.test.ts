import { getEventListeners } from 'node:events';
import * as fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { StoreError } from '../../protocol/errors.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { follow } from '../../src/session/follow.ts';
import { LogWatches } from '../../src/session/log-watches.ts';
import type { Session } from '../../src/session/session.ts';
import { gate } from '../support/gate.ts';
import { testHarness } from '../support/harness.ts';
import { settled } from '../support/until.ts';
import { holdAnswers, rest, resume, stored, take, types } from './following.ts';
import { text } from './log-parts.ts';
import { a, keep, say, setup } from './watched-store.ts';

describe('the end of following', () => {
  it.each([
    ['of a live session', true],
    ['of one that is waited for', false],
  ])('by its signal rejects with its reason while it waits (%s)', async (_, isLive) => {
    const { sessions } = setup();
    if (isLive) keep(sessions);
    else await stored(sessions, 0);
    const controller = new AbortController();
    const { signal } = controller;
    const events = sessions.follow(a, { signal, forever: true });
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    const next = events.next();
    await settled();
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    controller.abort(new Error('Enough.'));
    await expect(next).rejects.toThrow('Enough.');
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect((await events.next()).done).toBe(true);
  });

  it('by its signal comes before what could still be read', async () => {
    const { sessions } = setup();
    await stored(sessions, 3);
    const controller = new AbortController();
    const events = sessions.follow(a, { signal: controller.signal });
    expect(await take(events, 1)).toEqual([0]);
    controller.abort(new Error('Enough.'));
    await expect(events.next()).rejects.toThrow('Enough.');
  });

  it('by its owner ends what waits, also on a store that does not answer', async () => {
    const { sessions, store } = setup();
    await stored(sessions, 1);
    holdAnswers(store);
    const events = sessions.follow(a);
    const next = events.next();
    expect(await events.return()).toEqual({ done: true, value: undefined });
    expect((await next).done).toBe(true);
    expect((await events.next()).done).toBe(true);
    await expect(sessions.follow(a).throw?.(new Error('Mine.'))).rejects.toThrow('Mine.');
  });

  it('is when a loop is left, or its scope', async () => {
    const { sessions } = setup();
    keep(sessions);
    say(sessions.get(a)!);
    const events = sessions.follow(a);
    for await (const { seq } of events) {
      expect(seq).toBe(0);
      break;
    }
    expect((await events.next()).done).toBe(true);
    const scoped = sessions.follow(a);
    {
      await using mine = scoped;
      expect(await take(mine, 1)).toEqual([0]);
    }
    expect((await scoped.next()).done).toBe(true);
  });

  it('is with the end of all sessions, after the last event', async () => {
    const { sessions } = setup();
    const session = keep(sessions);
    say(session);
    const [slow, waiting] = [sessions.follow(a), sessions.follow(a, { forever: true, from: 1 })];
    const next = waiting.next();
    await sessions.close();
    expect((await next).done).toBe(true);
    expect(await rest(slow)).toEqual([0]);
  });

  it('is with the end of all sessions for one that waits for a session that is not live', async () => {
    const { sessions } = setup();
    await stored(sessions, 1);
    const events = sessions.follow(a, { forever: true, from: 1 });
    const next = events.next();
    await settled();
    await sessions.close();
    expect((await next).done).toBe(true);
  });

  it('is with the end of all sessions for one that reads a store that is closed under it', async () => {
    const { sessions, store } = setup();
    await stored(sessions, 1);
    const held = gate();
    vi.spyOn(store, 'readFrom').mockImplementation(async () => {
      await held.wait();
      throw new StoreError('STORE_IO', 'The store is closed.');
    });
    const next = sessions.follow(a).next();
    await settled();
    await sessions.close();
    held.open();
    expect((await next).done).toBe(true);
  });
});

it('gives what a child says as it says it, by the id of its run, and what is kept of it', async () => {
  await using t = await testHarness({ script: ['Six.'] });
  const { signal } = new AbortController();
  const { subagents, sessions } = t.harness;
  const run = await subagents.start('spawn', {
    parent: t.root,
    prompt: [text('How many?')],
    signal,
  });
  const told = types(sessions.follow(run.id));
  await run.result;
  await run.dispose();
  const live = await told;
  expect(live).toContain('assistant/message');
  expect(live.at(-1)).toBe('turn/end');
  expect(await types(sessions.follow(run.id))).toEqual(live);
});

it('costs nothing while nobody waits: a thousand followers of one session', async () => {
  const { sessions, store } = setup();
  const watches = new LogWatches(store, sessions.observers, (id) => sessions.get(id));
  const session = keep(sessions);
  say(session);
  const all = Array.from({ length: 1_000 }, () => follow(watches, a, {}));
  expect(await Promise.all(all.map((one) => take(one, 1)))).toHaveLength(1_000);
  expect(watches.countOf(a)).toBe(0);
  const next = all.map((one) => one.next());
  await settled();
  expect(watches.countOf(a)).toBe(1_000);
  say(session);
  expect(new Set((await Promise.all(next)).map(({ value }) => value?.seq))).toEqual(new Set([1]));
  expect(watches.countOf(a)).toBe(0);
  // A dropped one that did not wait is known to nobody; one that waits leaves with its end.
  const last = all.map((one) => one.next());
  await settled();
  await Promise.all(all.map((one) => one.return()));
  await Promise.all(last);
  expect(watches.countOf(a)).toBe(0);
});

it('gives the whole log once and in order, whatever happens to the session meanwhile', async () => {
  const steps = fc.array(fc.constantFrom('say', 'leave', 'resume', 'pull', 'pause'), {
    maxLength: 40,
  });
  await fc.assert(
    fc.asyncProperty(steps, async (walk) => {
      const { sessions, store } = setup();
      let session: Session | undefined = keep(sessions);
      say(session);
      await session.committed();
      const events = sessions.follow(a, { forever: true });
      const pulls: Promise<IteratorResult<SessionEvent, undefined>>[] = [];
      for (const step of walk) {
        if (step === 'pull') pulls.push(events.next());
        else if (step === 'pause') await settled();
        else if (step === 'resume') session ??= await resume(sessions);
        else if (session === undefined) continue;
        else if (step === 'say') say(session);
        else {
          await sessions.leave(session);
          session = undefined;
        }
      }
      if (session !== undefined) await sessions.leave(session);
      const { events: log } = await store.inspect(a);
      while (pulls.length < log.length) pulls.push(events.next());
      const given = (await Promise.all(pulls.slice(0, log.length))).map(({ value }) => value);
      expect(given).toEqual(log);
      await sessions.close();
      expect((await events.next()).done).toBe(true);
    }),
    { numRuns: 150 },
  );
});
