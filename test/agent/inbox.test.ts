import { describe, expect, it } from 'vitest';
import type { UserMessage } from '../../protocol/content.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { Inbox } from '../../src/agent/inbox.ts';
import type { InboxObserver } from '../../src/agent/inbox.ts';
import { Session } from '../../src/session/session.ts';
import { ManualClock } from '../support/manual-clock.ts';

const nobody: InboxObserver = { inserted() {}, discarded() {}, claimed() {} };
const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((text) => createUserMessage(text)) as [
  UserMessage,
  UserMessage,
  UserMessage,
  UserMessage,
];
const nameOf = ({ content }: UserMessage): string =>
  content.map((block) => (block.type === 'text' ? block.text : '?')).join('');

function sessionWith(seed: readonly SessionEvent[] = [], seedLength?: number): Session {
  return new Session({
    header: {
      version: 0,
      id: SessionId('s'),
      createdAt: 0,
      ...(seedLength === undefined ? {} : { seedLength }),
    },
    seed,
    clock: new ManualClock(),
  });
}

/** An inbox, and all that was told of it: observers in words, events as they were logged. */
function inboxOf(session = sessionWith()) {
  const told: string[] = [];
  const inbox = new Inbox(session, {
    inserted: (message) => told.push(`inserted ${nameOf(message)}`),
    discarded: (message) => told.push(`discarded ${nameOf(message)}`),
    claimed: (message, turn) => told.push(`claimed ${nameOf(message)} in ${turn}`),
  });
  return {
    session,
    inbox,
    told,
    lists: () => [inbox.nextStep.map(nameOf), inbox.nextTurn.map(nameOf)],
    splices: () =>
      session.events.flatMap((event) => (event.type === 'agent/inbox/spliced' ? [event.data] : [])),
  };
}

describe('an insertion', () => {
  it('goes to the end of its list', () => {
    const { inbox, lists, told } = inboxOf();
    expect(inbox.hasPending).toBe(false);
    inbox.insert('next-turn', a);
    inbox.insert('next-step', b);
    inbox.insert('next-turn', c);
    expect(lists()).toEqual([['b'], ['a', 'c']]);
    expect(inbox.hasPending).toBe(true);
    expect(told).toEqual(['inserted a', 'inserted b', 'inserted c']);
  });

  it('is logged with its place', () => {
    const { inbox, splices } = inboxOf();
    inbox.insert('next-turn', a);
    inbox.insert('next-turn', b);
    expect(splices()).toEqual([
      { target: 'next-turn', start: 0, inserted: [a] },
      { target: 'next-turn', start: 1, inserted: [b] },
    ]);
  });

  it.each(['next-turn', 'next-step'] as const)(
    'of an id that waits already, now into %s, is refused',
    (target) => {
      const { inbox, told, splices } = inboxOf();
      inbox.insert('next-turn', a);
      expect(() => inbox.insert(target, a)).toThrow(
        expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
      );
      expect(splices()).toHaveLength(1);
      expect(told).toEqual(['inserted a']);
    },
  );

  it('of an id that was claimed is accepted again', () => {
    const { inbox, lists } = inboxOf();
    inbox.insert('next-turn', a);
    inbox.claim('turn', 1);
    inbox.insert('next-step', a);
    expect(lists()).toEqual([['a'], []]);
  });

  it('that cannot be logged changes nothing, and tells nobody', () => {
    const { inbox, told, lists, session } = inboxOf();
    const bad = { ...a, content: [{ type: 'text', text: 1n }] } as unknown as UserMessage;
    expect(() => inbox.insert('next-turn', bad)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    );
    expect(lists()).toEqual([[], []]);
    expect(told).toEqual([]);
    expect(session.seq).toBe(0);
  });

  it("keeps the log's copy, not the caller's object", () => {
    const { inbox } = inboxOf();
    const content = [{ type: 'text' as const, text: 'before' }];
    inbox.insert('next-turn', { ...a, content });
    content[0]!.text = 'after';
    expect(inbox.nextTurn.map(nameOf)).toEqual(['before']);
    expect(Object.isFrozen(inbox.nextTurn[0])).toBe(true);
  });
});

describe('every change', () => {
  it('is in the log first, then in the lists, then told', () => {
    const session = sessionWith();
    const order: string[] = [];
    const inbox: Inbox = new Inbox(session, {
      inserted: () => order.push(`inserted, waiting: ${inbox.nextTurn.length}`),
      discarded: () => order.push(`discarded, waiting: ${inbox.nextTurn.length}`),
      claimed: () => order.push(`claimed, waiting: ${inbox.nextTurn.length}`),
    });
    session.onAppend(() => order.push(`logged, waiting: ${inbox.nextTurn.length}`));
    inbox.insert('next-turn', a);
    inbox.remove(a.id);
    inbox.insert('next-turn', b);
    inbox.claim('turn', 1);
    expect(order).toEqual([
      'logged, waiting: 0',
      'inserted, waiting: 1',
      'logged, waiting: 1',
      'discarded, waiting: 0',
      'logged, waiting: 0',
      'inserted, waiting: 1',
      'logged, waiting: 1',
      'claimed, waiting: 0',
    ]);
  });

  it('is refused, and changes nothing, inside the telling of another', () => {
    const { session, inbox, lists } = inboxOf();
    const refused: unknown[] = [];
    session.onAppend(() => {
      try {
        inbox.insert('next-step', b);
      } catch (error) {
        refused.push(error);
      }
    });
    inbox.insert('next-turn', a);
    expect(refused).toMatchObject([{ code: 'INVALID_ARGUMENT' }]);
    expect(lists()).toEqual([[], ['a']]);
  });
});

describe('a removal', () => {
  it('is a cancellation, wherever the message waits', () => {
    const { inbox, told, splices, lists } = inboxOf();
    for (const message of [a, b]) inbox.insert('next-turn', message);
    for (const message of [c, d]) inbox.insert('next-step', message);
    expect([inbox.remove(b.id), inbox.remove(c.id)]).toEqual([true, true]);
    expect(lists()).toEqual([['d'], ['a']]);
    expect(splices().slice(4)).toEqual([
      { target: 'next-turn', start: 1, removedCount: 1, inserted: [], outcome: 'canceled' },
      { target: 'next-step', start: 0, removedCount: 1, inserted: [], outcome: 'canceled' },
    ]);
    expect(told.slice(4)).toEqual(['discarded b', 'discarded c']);
  });

  it('of what does not wait, or no longer, is false and writes nothing', () => {
    const { inbox, session } = inboxOf();
    inbox.insert('next-turn', a);
    inbox.claim('turn', 1);
    const { seq } = session;
    expect([inbox.remove(a.id), inbox.remove(b.id)]).toEqual([false, false]);
    expect(session.seq).toBe(seq);
  });
});

describe('clearing', () => {
  it('cancels next-step, then next-turn, with one event for each', () => {
    const { inbox, told, splices, lists } = inboxOf();
    for (const message of [a, b]) inbox.insert('next-turn', message);
    for (const message of [c, d]) inbox.insert('next-step', message);
    inbox.clear();
    expect(lists()).toEqual([[], []]);
    expect(splices().slice(4)).toEqual([
      { target: 'next-step', start: 0, removedCount: 2, inserted: [], outcome: 'canceled' },
      { target: 'next-turn', start: 0, removedCount: 2, inserted: [], outcome: 'canceled' },
    ]);
    expect(told.slice(4)).toEqual(['discarded c', 'discarded d', 'discarded a', 'discarded b']);
  });

  it('writes nothing for a list that is empty', () => {
    const { inbox, splices, session } = inboxOf();
    inbox.clear();
    expect(session.seq).toBe(0);
    inbox.insert('next-step', a);
    inbox.clear();
    expect(splices().map(({ target }) => target)).toEqual(['next-step', 'next-step']);
  });
});

describe('a claim', () => {
  it('for a turn takes all of next-step and one of next-turn, in that order', () => {
    const { inbox, told, splices, lists } = inboxOf();
    for (const message of [a, b]) inbox.insert('next-turn', message);
    for (const message of [c, d]) inbox.insert('next-step', message);
    expect(inbox.claim('turn', 7).map(nameOf)).toEqual(['c', 'd', 'a']);
    expect(lists()).toEqual([[], ['b']]);
    expect(splices().slice(4)).toEqual([
      { target: 'next-step', start: 0, removedCount: 2, inserted: [] },
      { target: 'next-turn', start: 0, removedCount: 1, inserted: [] },
    ]);
    expect(told.slice(4)).toEqual(['claimed c in 7', 'claimed d in 7', 'claimed a in 7']);
  });

  it('for a step takes all of next-step and nothing else', () => {
    const { inbox, lists, splices } = inboxOf();
    inbox.insert('next-turn', a);
    for (const message of [c, d]) inbox.insert('next-step', message);
    expect(inbox.claim('step', 1).map(nameOf)).toEqual(['c', 'd']);
    expect(lists()).toEqual([[], ['a']]);
    expect(splices()).toHaveLength(4);
  });

  it('of nothing writes nothing', () => {
    const { inbox, session } = inboxOf();
    expect(inbox.claim('turn', 1)).toEqual([]);
    inbox.insert('next-turn', a);
    expect(inbox.claim('step', 1)).toEqual([]);
    expect(session.seq).toBe(1);
  });
});

describe('what waited in an earlier life', () => {
  it('waits again, in its order, without what was claimed or discarded', () => {
    const first = inboxOf();
    for (const message of [a, b, c]) first.inbox.insert('next-turn', message);
    first.inbox.insert('next-step', d);
    first.inbox.claim('step', 1);
    first.inbox.remove(b.id);
    const second = inboxOf(sessionWith(first.session.events));
    expect(second.lists()).toEqual([[], ['a', 'c']]);
    expect(second.told).toEqual([]);
    expect(second.splices()).toHaveLength(first.splices().length);
  });

  it('is not what the log was seeded with from another session', () => {
    const first = inboxOf();
    first.inbox.insert('next-turn', a);
    const second = inboxOf(sessionWith(first.session.events, 1));
    expect(second.lists()).toEqual([[], []]);
  });

  it('is refused when it does not fit together', () => {
    const data = { target: 'next-turn', start: 0, removedCount: 1, inserted: [] } as const;
    const event = { type: 'agent/inbox/spliced', seq: 0, time: 0, data } as const;
    expect(() => new Inbox(sessionWith([event]), nobody)).toThrow(/Cannot restore the inbox/);
  });
});
