import { describe, expect, it } from 'vitest';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Session } from '../../src/session/session.ts';
import {
  closeOpenCalls,
  closeOpenTurn,
  crashClosers,
  storedClosers,
} from '../../src/session/repair.ts';
import {
  aSession,
  appendTurn,
  asks,
  assistantMessage,
  inStep,
  toolCall,
  toolResult,
  typesOf,
  userMessage,
} from './log-parts.ts';

type Told = ReturnType<typeof userMessage>;

const at = { turn: 1, step: 1 };

/** Three calls asked for: the first answered, the second running, the third not started. */
function inTools(): Session {
  const session = inStep();
  session.append('assistant/message', {
    ...at,
    message: assistantMessage(asks('a'), asks('b'), asks('c')),
  });
  session.append('tool/call', toolCall('a'));
  session.append('tool/call', toolCall('b'));
  session.append('tool/result', toolResult('a'));
  return session;
}

const failures = (events: readonly SessionEvent[]) =>
  events.flatMap((event) =>
    event.type === 'tool/result' && event.data.error !== undefined
      ? [[event.data.message.source.callId, event.data.error.code, event.sourceEventSeqs]]
      : [],
  );

describe('a log that a crash cut off', () => {
  it('needs nothing when its turns are closed', () => {
    const session = aSession();
    expect(crashClosers(session.events)).toEqual([]);
    appendTurn(session, 'one');
    expect(crashClosers(session.events)).toEqual([]);
  });

  it('is closed between two steps', () => {
    const session = inStep();
    session.append('step/end', at);
    expect(typesOf(crashClosers(session.events))).toEqual(['turn/end']);
  });

  it('leaves waiting what was claimed for a step that never began', () => {
    const session = aSession();
    const [first, second, quiet] = ['first', 'second', 'quiet'].map(userMessage) as [
      Told,
      Told,
      Told,
    ];
    const splice = (target: 'next-turn' | 'next-step', more: object) =>
      session.append('agent/inbox/spliced', { target, start: 0, inserted: [], ...more });
    splice('next-turn', { inserted: [first, second] });
    splice('next-step', { inserted: [quiet] });
    session.append('turn/start', { turn: 1 });
    // Thrown away in the open turn, and so not claimed.
    splice('next-turn', { start: 1, removedCount: 1, outcome: 'canceled' });
    splice('next-step', { removedCount: 1 });
    splice('next-turn', { removedCount: 1 });
    const closers = crashClosers(session.events);
    expect(
      closers.map(({ type, data }) => [type, (data as { inserted?: unknown }).inserted]),
    ).toEqual([
      ['agent/inbox/spliced', [quiet]],
      ['agent/inbox/spliced', [first]],
      ['turn/end', undefined],
    ]);
    session.append('step/start', at);
    expect(typesOf(crashClosers(session.events))).toEqual(['step/end', 'turn/end']);
    session.append('step/end', at);
    expect(typesOf(crashClosers(session.events))).toEqual(['turn/end']);
  });

  it('puts back nothing that its seed had claimed', () => {
    const session = aSession();
    const inserted = [userMessage('theirs')];
    session.append('agent/inbox/spliced', { target: 'next-turn', start: 0, inserted });
    session.append('turn/start', { turn: 1 });
    session.append('agent/inbox/spliced', {
      target: 'next-turn',
      start: 0,
      removedCount: 1,
      inserted: [],
    });
    expect(typesOf(crashClosers(session.events, session.seq))).toEqual(['turn/end']);
  });

  it('answers every call of the model, then closes the step and the turn', () => {
    const session = inTools();
    const closers = crashClosers(session.events);
    expect(typesOf(closers)).toEqual(['tool/result', 'tool/result', 'step/end', 'turn/end']);
    expect(failures(closers)).toEqual([
      ['b', 'TOOL_OUTCOME_UNKNOWN', [4]],
      ['c', 'TOOL_NOT_STARTED', undefined],
    ]);
    expect(closers.at(-1)?.data).toEqual({ turn: 1, reason: { kind: 'interrupted' } });
  });

  it('reads as a log again, at the time of its last event', () => {
    const { events } = inTools();
    const repaired = aSession([...events, ...crashClosers(events)]);
    expect(repaired.open).toBeUndefined();
    expect(repaired.events.at(-1)?.time).toBe(events.at(-1)?.time);
    const answered = repaired.deriveMessages().filter(({ source }) => source.kind === 'tool');
    expect(answered).toHaveLength(3);
  });

  it('is said to be damaged when it cannot be read', () => {
    const { header, events } = inStep();
    const damaged = events.map((event) => ({ ...event, data: null }) as never);
    expect(() => storedClosers(header, damaged)).toThrow(
      expect.objectContaining({ code: 'STORE_CORRUPT', message: expect.stringContaining('`s`') }),
    );
  });

  it('gets equal closers from every reader', () => {
    const { events } = inTools();
    expect(crashClosers(events)).toEqual(crashClosers([...events]));
  });
});

describe('closing the open turn of a live session', () => {
  const reason = { kind: 'error', error: { code: 'WORKER_CRASHED', message: 'It died.' } } as const;
  const failure = { code: 'WORKER_CRASHED', message: 'The thread died.' };

  it('appends what is missing, with the reason and the failure it is given', () => {
    const session = inTools();
    const before = session.seq;
    closeOpenTurn(session, reason, failure);
    const closers = session.eventsFrom(before);
    expect(typesOf(closers)).toEqual(['tool/result', 'tool/result', 'step/end', 'turn/end']);
    expect(failures(closers)).toEqual([
      ['b', 'WORKER_CRASHED', [4]],
      ['c', 'TOOL_NOT_STARTED', undefined],
    ]);
    expect(closers.at(-1)?.data).toEqual({ turn: 1, reason });
    expect(session.open).toBeUndefined();
  });

  it('answers its open calls alone, each with the call it belongs to', () => {
    const session = inTools();
    const call = session.events.findLast(({ type }) => type === 'tool/call');
    const { seq } = session;
    closeOpenCalls(session, { code: 'TOOL_FAILED', message: 'The step is over.' });
    const added = session.eventsFrom(seq);
    expect(failures(added)).toEqual([
      ['b', 'TOOL_FAILED', [call?.seq]],
      ['c', 'TOOL_NOT_STARTED', undefined],
    ]);
    expect(session.open?.step).toBe(1);
    closeOpenCalls(session, { code: 'TOOL_FAILED', message: 'The step is over.' });
    expect(session.seq).toBe(seq + 2);
  });

  it('does nothing when no turn is open', () => {
    const session = aSession();
    appendTurn(session, 'one');
    const before = session.events;
    closeOpenTurn(session, reason, failure);
    expect(session.events).toBe(before);
  });
});
