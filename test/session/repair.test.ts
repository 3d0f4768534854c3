import { describe, expect, it } from 'vitest';
import type { SessionEvent } from '../../protocol/session-events.ts';
import type { Session } from '../../src/session/session.ts';
import { closeOpenTurn, crashClosers } from '../../src/session/repair.ts';
import {
  aSession,
  appendTurn,
  asks,
  assistantMessage,
  inStep,
  toolCall,
  toolResult,
  typesOf,
} from './log-parts.ts';

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

  it('does nothing when no turn is open', () => {
    const session = aSession();
    appendTurn(session, 'one');
    const before = session.events;
    closeOpenTurn(session, reason, failure);
    expect(session.events).toBe(before);
  });
});
