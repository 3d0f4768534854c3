import { describe, expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import type { Json } from '../../protocol/json.ts';
import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { SessionPersistence } from '../../src/session/store.ts';
import { FIRST_EPOCH, firstEpoch } from '../../src/session/store.ts';
import { listingContract } from './store-contract-listing.ts';
import { header, inStep, toolCall, toolResult, userMessage } from './log-parts.ts';

export interface StoreUnderTest extends AsyncDisposable {
  readonly store: SessionPersistence;
}

const a = SessionId('a');
const b = SessionId('b');

function log(length: number): readonly SessionEvent[] {
  const session = inStep();
  while (session.seq < length) session.append('user/message', userMessage(`m${session.seq}`));
  return session.events.slice(0, length);
}
const events = log(6);
const creation = (
  id: SessionId,
  given: readonly SessionEvent[],
  more: Partial<SessionHeader> = {},
) => ({
  id,
  epoch: FIRST_EPOCH,
  header: header(id, more),
  events: given,
});

/** What every store does. */
export function storeContract(name: string, make: () => StoreUnderTest): void {
  describe(name, () => {
    it('gives back a session as it was kept', async () => {
      await using t = make();
      await t.store.append([creation(a, events.slice(0, 4), { cwd: '/work' })]);
      await t.store.append([{ id: a, epoch: FIRST_EPOCH, events: events.slice(4) }]);
      const stored = await t.store.inspect(a);
      expect(stored).toEqual({ header: header(a, { cwd: '/work' }), events });
    });

    it('gives back exactly what is hard to write down', async () => {
      await using t = make();
      const session = inStep();
      session.append('tool/call', toolCall('c'));
      let deep: unknown = 'end';
      for (let level = 0; level < 200; level++) deep = { deep: [deep] };
      const many = JSON.stringify(Array.from({ length: 1_000 }, (_, index) => index));
      const meta = JSON.parse(
        `{"__proto__":{"a":1},"big":9007199254740991,"large":1e300,"f":1.5,"n":null,"many":${many}}`,
      ) as Json;
      const { seq } = session.append('tool/result', { ...toolResult('c'), meta });
      session.append('user/message', userMessage('half \ud83d a pair, a whole 😀, and \u0000'));
      session.append('agent/inbox/spliced', {
        target: 'next-turn',
        start: 0,
        inserted: [{ ...userMessage('x'), source: { kind: 'plugin', plugin: 'p', deep } as never }],
      });
      await t.store.append([creation(a, session.events)]);
      const stored = await t.store.inspect(a);
      expect(stored.events).toEqual(session.events);
      const result = stored.events[seq] as { data: { meta: object } };
      expect(Object.keys(result.data.meta)).toContain('__proto__');
    });

    it.each([
      ['as it is stored', a, 4],
      ['that is stored in part', a, 6],
      ['of which a part is meant', a, 2],
      ['of which nothing is meant', a, 0],
      ['that it does not hold', SessionId('none'), 6],
      ['that is its own', b, 6],
    ])('keeps all that is given of a session that inherits one %s', async (_, id, count) => {
      await using t = make();
      await t.store.append([creation(a, events.slice(0, 4))]);
      await t.store.append([
        { ...creation(b, events.slice(0, 6), { seedLength: count }), inherits: { id, count } },
      ]);
      const kept = { header: header(b, { seedLength: count }), events };
      expect(await t.store.inspect(b)).toEqual(kept);
      await t.store.delete([a]);
      expect(await t.store.inspect(b)).toEqual(kept);
    });

    it('keeps a session apart from the one that inherited it', async () => {
      await using t = make();
      const more = log(8);
      await t.store.append([
        creation(a, events),
        { ...creation(b, events), inherits: { id: a, count: events.length } },
      ]);
      await t.store.append([{ id: b, epoch: FIRST_EPOCH, events: more.slice(6) }]);
      expect((await t.store.inspect(a)).events).toEqual(events);
      expect((await t.store.inspect(b)).events).toEqual([...events, ...more.slice(6)]);
    });

    it('lists headers by age, then id', async () => {
      await using t = make();
      await t.store.append([
        creation(b, [], { createdAt: 5 }),
        creation(a, [], { createdAt: 5 }),
        creation(SessionId('c'), [], { createdAt: 2 }),
      ]);
      expect((await t.store.list()).map(({ id }) => id)).toEqual(['c', 'a', 'b']);
    });

    it('reads a suffix, and nothing beyond the end', async () => {
      await using t = make();
      await t.store.append([creation(a, events)]);
      expect(await t.store.readFrom(a, 4)).toEqual(events.slice(4));
      expect(await t.store.readFrom(a, 6)).toEqual([]);
      expect(await t.store.readFrom(a, 600)).toEqual([]);
    });

    it('takes all of a batch or nothing of it', async () => {
      await using t = make();
      await t.store.append([creation(a, events.slice(0, 2))]);
      const batch = [
        { id: a, epoch: FIRST_EPOCH, events: events.slice(2) },
        creation(b, events),
        { id: SessionId('none'), epoch: FIRST_EPOCH, events },
      ];
      await expect(t.store.append(batch)).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
      expect((await t.store.inspect(a)).events).toHaveLength(2);
      expect(await t.store.list()).toHaveLength(1);
    });

    it('refuses whoever writes with an old epoch', async () => {
      await using t = make();
      await t.store.append([creation(a, events.slice(0, 2))]);
      const { epoch } = await t.store.acquire(a);
      expect(epoch).toBe(FIRST_EPOCH + 1);
      const stale = t.store.append([{ id: a, epoch: FIRST_EPOCH, events: events.slice(2) }]);
      await expect(stale).rejects.toMatchObject({ code: 'STALE_EPOCH' });
      await t.store.append([{ id: a, epoch, events: events.slice(2) }]);
      expect((await t.store.inspect(a)).events).toEqual(events);
    });

    it('grows the epoch with every acquisition, released or not', async () => {
      await using t = make();
      await t.store.append([creation(a, [])]);
      await t.store.acquire(a);
      await t.store.release([a]);
      expect(await t.store.acquire(a)).toEqual({ epoch: FIRST_EPOCH + 2 });
    });

    it('refuses a log with a gap, one that overlaps, and a second session of one id', async () => {
      await using t = make();
      await t.store.append([creation(a, events.slice(0, 2))]);
      const add = (given: readonly SessionEvent[]) =>
        t.store.append([{ id: a, epoch: FIRST_EPOCH, events: given }]);
      await expect(add(events.slice(3))).rejects.toMatchObject({ code: 'STORE_CORRUPT' });
      await expect(add(events.slice(1))).rejects.toMatchObject({ code: 'STORE_CORRUPT' });
      await expect(t.store.append([creation(a, [])])).rejects.toMatchObject({
        code: 'SESSION_OWNED_ELSEWHERE',
      });
      expect((await t.store.inspect(a)).events).toHaveLength(2);
    });

    it('says so when it does not hold a session', async () => {
      await using t = make();
      for (const ask of [
        () => t.store.inspect(a),
        () => t.store.readFrom(a, 0),
        () => t.store.acquire(a),
      ]) {
        await expect(ask()).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' });
      }
    });

    it('deletes sessions with their events, and one it does not hold without complaint', async () => {
      await using t = make();
      await t.store.append([creation(a, events), creation(b, events)]);
      await t.store.delete([a, SessionId('none')]);
      expect((await t.store.list()).map(({ id }) => id)).toEqual(['b']);
      await t.store.append([creation(a, events.slice(0, 1))]);
      expect((await t.store.inspect(a)).events).toEqual(events.slice(0, 1));
    });

    it('refuses who held a session that was removed and made again under its id', async () => {
      await using t = make();
      const made = () => ({ ...creation(a, events.slice(0, 1)), epoch: firstEpoch() });
      await t.store.append([made()]);
      const { epoch } = await t.store.acquire(a);
      await t.store.delete([a]);
      await t.store.append([made()]);
      const again = await t.store.acquire(a);
      const late = (of: number) => t.store.append([{ id: a, epoch: of, events: events.slice(1) }]);
      await expect(late(epoch)).rejects.toMatchObject({ code: 'STALE_EPOCH' });
      await late(again.epoch);
      expect((await t.store.inspect(a)).events).toEqual(events);
    });

    it('ends a reading whose signal is aborted, with its reason', async () => {
      await using t = make();
      await t.store.append([creation(a, events)]);
      const reason = new Error('enough');
      const signal = AbortSignal.abort(reason);
      await expect(t.store.list(signal)).rejects.toBe(reason);
      await expect(t.store.inspect(a, signal)).rejects.toBe(reason);
      await expect(t.store.readFrom(a, 0, signal)).rejects.toBe(reason);
    });

    listingContract(make);

    it('closes more than once', async () => {
      await using t = make();
      await t.store.close();
      await t.store.close();
    });
  });
}
