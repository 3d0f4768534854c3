import { describe, expect, it } from 'vitest';
import { MessageId, SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { newId } from '../../src/base/ids.ts';
import { Session } from '../../src/session/session.ts';
import { canonicalLog, canonicalLogs } from './canonical-log.ts';
import type { Logged } from './canonical-log.ts';
import { ManualClock } from './manual-clock.ts';

/** One turn, the same each time but for its ids and its time. */
function turn(now: number, id = SessionId(newId())): Logged {
  const clock = new ManualClock(now);
  const session = new Session({ header: { version: 0, id, createdAt: now }, clock });
  session.append('turn/start', { turn: 1 });
  session.append('step/start', { turn: 1, step: 1 });
  session.append('user/message', createUserMessage('Hi'));
  const chunk = { type: 'text-delta', index: 0, text: 'Hello' } as const;
  const { seq } = session.append('assistant/chunk', { turn: 1, step: 1, chunk });
  const source = { kind: 'model', provider: 'p', model: 'm' } as const;
  const content = [{ type: 'text', text: `Hello from ${id}` }] as const;
  const message = { id: MessageId(newId()), role: 'assistant', content, source } as const;
  session.append('assistant/message', { turn: 1, step: 1, message }, { sources: [seq] });
  session.append('step/end', { turn: 1, step: 1 });
  session.append('turn/end', { turn: 1, reason: { kind: 'completed' } });
  return session;
}

type Change = (events: object[]) => unknown;

/** The same log with its events changed. */
const changed = (log: Logged, change: Change): Logged => {
  const events = structuredClone(log.events) as SessionEvent[];
  change(events);
  return { header: log.header, events };
};

/** Sets what stands at this path, such as `3.data.chunk`. */
const set =
  (path: string, value: unknown): Change =>
  (events) => {
    const keys = path.split('.');
    const last = keys.pop()!;
    const target = keys.reduce<object>((at, key) => (at as Record<string, object>)[key]!, events);
    (target as Record<string, unknown>)[last] = value;
  };

const idOf = (event: unknown): string => (event as { data: { id: string } }).data.id;

describe('canonicalLog', () => {
  it('is the same for the same events at another time, with other ids', () => {
    expect(canonicalLog(turn(1))).toEqual(canonicalLog(turn(2)));
  });

  it('keeps every event, in order, and names an id in text as it names it elsewhere', () => {
    const log = turn(1);
    const { header, events } = canonicalLog(log);
    expect(events).toHaveLength(log.events.length);
    expect(events.map((event) => (event as SessionEvent).type)).toEqual(
      log.events.map(({ type }) => type),
    );
    expect(header).toEqual({ version: 0, id: 'id-1' });
    expect(events[4]).toMatchObject({
      data: { message: { id: 'id-3', content: [{ text: 'Hello from id-1' }] } },
    });
  });

  it('names an id alike in all logs of one run', () => {
    const parent = turn(1);
    const { header, events } = turn(1);
    const child = { header: { ...header, parentSession: parent.header.id }, events };
    expect(canonicalLogs([parent, child])[1]!.header).toMatchObject({ parentSession: 'id-1' });
  });

  it.each<[string, Change]>([
    ['a changed text', set('3.data.chunk.text', 'Hello!')],
    ['a changed number', set('5.data.step', 2)],
    ['one field more', set('4.data.interrupted', true)],
    ['one field less', set('4.data.message.source', { kind: 'model', provider: 'p' })],
    ['other sources', set('4.sourceEventSeqs', [2])],
    ['another seq', set('6.seq', 7)],
    ['another id', set('4.data.message.id', 'mine')],
    ['the id of another', (events) => set('4.data.message.id', idOf(events[2]))(events)],
    ['two events in another order', (events) => events.splice(5, 2, events[6]!, events[5]!)],
    ['a missing event', (events) => events.splice(3, 1)],
    ['an event more', (events) => events.splice(4, 0, structuredClone(events[3]!))],
  ])('shows %s', (_, change) => {
    const log = turn(1);
    expect(canonicalLog(changed(log, () => {}))).toEqual(canonicalLog(log));
    expect(canonicalLog(changed(log, change))).not.toEqual(canonicalLog(log));
  });

  it('shows another header', () => {
    const log = turn(1);
    const deeper = { header: { ...log.header, delegationDepth: 1 }, events: log.events };
    expect(canonicalLog(deeper)).not.toEqual(canonicalLog(log));
  });
});
