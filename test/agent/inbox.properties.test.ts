import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import type { UserMessage } from '../../protocol/content.ts';
import { ArgumentError } from '../../protocol/errors.ts';
import { MessageId } from '../../protocol/ids.ts';
import type { InboxTarget, SessionEventMap } from '../../protocol/session-events.ts';
import { Inbox } from '../../src/agent/inbox.ts';
import type { InboxObserver } from '../../src/agent/inbox.ts';
import { aSession } from '../session/log-parts.ts';

const silent: InboxObserver = { inserted() {}, discarded() {}, claimed() {} };
const ids = (messages: readonly UserMessage[]): string[] => messages.map(({ id }) => id);
const lists = (inbox: Inbox) => ({ turn: ids(inbox.nextTurn), step: ids(inbox.nextStep) });
const message = (id: string): UserMessage => ({
  id: MessageId(id),
  role: 'user',
  content: [{ type: 'text', text: id }],
  source: { kind: 'user' },
});

type Deed =
  | { readonly kind: 'insert'; readonly target: InboxTarget; readonly id: string }
  | { readonly kind: 'remove'; readonly id: string }
  | { readonly kind: 'clear' }
  | { readonly kind: 'claim'; readonly boundary: 'turn' | 'step' };

type Plain = Record<InboxTarget, string[]>;

const TURN = 7;
const idsIn = (plain: Plain): string[] => [...plain['next-step'], ...plain['next-turn']];

/** What a deed does to two plain lists, and what is told of it; `undefined` when it is refused. */
function onPlain(plain: Plain, deed: Deed): string[] | undefined {
  switch (deed.kind) {
    case 'insert':
      if (idsIn(plain).includes(deed.id)) return undefined;
      plain[deed.target].push(deed.id);
      return [`inserted ${deed.id}`];
    case 'remove':
      for (const list of Object.values(plain)) {
        const index = list.indexOf(deed.id);
        if (index >= 0) return list.splice(index, 1).map((id) => `discarded ${id}`);
      }
      return [];
    case 'clear': {
      const all = idsIn(plain);
      for (const list of Object.values(plain)) list.length = 0;
      return all.map((id) => `discarded ${id}`);
    }
    case 'claim': {
      const most = deed.boundary === 'turn' ? 1 : 0;
      const claimed = [...plain['next-step'].splice(0), ...plain['next-turn'].splice(0, most)];
      return claimed.map((id) => `claimed ${id} in ${TURN}`);
    }
    default:
      return deed satisfies never;
  }
}

/** What it gives back says what was done, too. */
function onInbox(inbox: Inbox, deed: Deed): boolean {
  const before = [...inbox.nextTurn, ...inbox.nextStep].length;
  switch (deed.kind) {
    case 'insert':
      inbox.insert(deed.target, message(deed.id));
      return inbox.has(MessageId(deed.id));
    case 'remove':
      return inbox.has(MessageId(deed.id)) === inbox.remove(MessageId(deed.id));
    case 'clear':
      inbox.clear();
      return true;
    case 'claim': {
      const claimed = inbox.claim(deed.boundary, TURN).length;
      return before - claimed === [...inbox.nextTurn, ...inbox.nextStep].length;
    }
    default:
      return deed satisfies never;
  }
}

// Few ids, so that they meet again: waiting, removed, or claimed and told anew.
const anyId = fc.constantFrom('a', 'b', 'c', 'd', 'e');
const anyTarget = fc.constantFrom<InboxTarget>('next-turn', 'next-step');
const anyDeed: fc.Arbitrary<Deed> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ kind: fc.constant('insert'), target: anyTarget, id: anyId }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('remove'), id: anyId }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant('claim'),
      boundary: fc.constantFrom('turn', 'step'),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'clear' }) },
);

it('is two plain lists, in every order of what is done to it', () => {
  fc.assert(
    fc.property(fc.array(anyDeed, { maxLength: 40 }), (deeds) => {
      const session = aSession();
      const told: string[] = [];
      const inbox = new Inbox(session, {
        inserted: ({ id }) => told.push(`inserted ${id}`),
        discarded: ({ id }) => told.push(`discarded ${id}`),
        claimed: ({ id }, turn) => told.push(`claimed ${id} in ${turn}`),
      });
      const plain: Plain = { 'next-turn': [], 'next-step': [] };
      for (const deed of deeds) {
        const logged = session.seq;
        const expected = onPlain(plain, deed);
        if (expected === undefined) expect(() => onInbox(inbox, deed)).toThrow(ArgumentError);
        else expect(onInbox(inbox, deed)).toBe(true);
        expect(told.splice(0)).toEqual(expected ?? []);
        expect(lists(inbox)).toEqual({ turn: plain['next-turn'], step: plain['next-step'] });
        const all = idsIn(plain);
        expect(new Set(all).size).toBe(all.length);
        expect(inbox.hasPending).toBe(all.length > 0);
        // What changes nothing writes nothing.
        expect(session.seq > logged).toBe((expected ?? []).length > 0);
        // Another life, from the log alone.
        expect(lists(new Inbox(session, silent))).toEqual(lists(inbox));
      }
    }),
    { numRuns: 300 },
  );
});

it('restores any change that a log may hold: put before others, put in their place, cut out', () => {
  const change = fc.record({
    target: anyTarget,
    start: fc.nat(6),
    removed: fc.nat(3),
    added: fc.nat(3),
  });
  fc.assert(
    fc.property(fc.array(change, { maxLength: 25 }), (changes) => {
      const session = aSession();
      const plain: Plain = { 'next-turn': [], 'next-step': [] };
      let made = 0;
      for (const { target, start: wanted, removed: most, added } of changes) {
        const start = Math.min(wanted, plain[target].length);
        const removed = Math.min(most, plain[target].length - start);
        const inserted = Array.from({ length: added }, () => message(`m${++made}`));
        plain[target].splice(start, removed, ...ids(inserted));
        const data: SessionEventMap['agent/inbox/spliced'] = {
          target,
          start,
          ...(removed === 0 ? {} : { removedCount: removed }),
          inserted,
        };
        session.append('agent/inbox/spliced', data);
      }
      const inbox = new Inbox(session, silent);
      expect(lists(inbox)).toEqual({ turn: plain['next-turn'], step: plain['next-step'] });
    }),
    { numRuns: 200 },
  );
});
