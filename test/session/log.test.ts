import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { SessionId } from '../../protocol/ids.ts';
import type { SessionEvent } from '../../protocol/session-events.ts';
import { Session } from '../../src/session/session.ts';
import { ManualClock } from '../support/manual-clock.ts';
import {
  aSession,
  appendTurn,
  assistantMessage,
  delta,
  header,
  inStep,
  text,
  toolCall,
  toolResult,
  typesOf,
  userMessage,
} from './log-parts.ts';

describe('an appended event', () => {
  it('gets the next number and the time of the clock', async () => {
    const clock = new ManualClock(5_000);
    const session = aSession([], clock);
    const first = session.append('turn/start', { turn: 1 });
    await clock.advance(7);
    const second = session.append('step/start', { turn: 1, step: 1 });
    expect([first.seq, first.time, second.seq, second.time]).toEqual([0, 5_000, 1, 5_007]);
    expect(session.seq).toBe(2);
  });

  it('holds a frozen copy: later changes of what was given do not reach it', () => {
    const session = aSession();
    const message = {
      ...userMessage('before'),
      content: [{ type: 'text' as const, text: 'before' }],
    };
    const { data } = session.append('user/message', message);
    message.content[0] = { type: 'text', text: 'after' };
    expect(data.content).toEqual([text('before')]);
    expect(Object.isFrozen(data.content[0])).toBe(true);
    expect(Object.isFrozen(session.events[0])).toBe(true);
  });

  it('says how it joins the history exactly when it does', () => {
    const session = inStep();
    const chunk = session.append('assistant/chunk', delta('a'));
    const sources = [chunk.seq];
    const message = session.append(
      'assistant/message',
      { turn: 1, step: 1, message: assistantMessage(text('a')) },
      { sources },
    );
    sources.push(99);
    expect(message).toMatchObject({ surfaceOp: 'append', sourceEventSeqs: [chunk.seq] });
    expect(Object.keys(chunk)).toEqual(['type', 'seq', 'time', 'data']);
    expect(session.append('user/message', userMessage('x'))).not.toHaveProperty('sourceEventSeqs');
  });
});

const noticed = (more: { readonly stopReason?: string; readonly waiting?: number }) => ({
  ...userMessage('a'),
  source: {
    kind: 'subagent-settled',
    form: 'notice',
    summary: 'a',
    senderSessionId: SessionId('child'),
    turn: 1,
    ...more,
  } as const,
});

it.each([{}, { stopReason: 'a new one', waiting: 0 }])(
  'a notice is taken with %j, as older logs have it and as it is now',
  (more) => {
    expect(inStep().append('user/message', noticed(more)).data.source).toMatchObject(more);
  },
);

describe('a refused append', () => {
  const at = { turn: 1, step: 1 };
  const message = assistantMessage(text('a'));
  const wrong: readonly [string, (session: Session) => unknown][] = [
    ['data that is not JSON', (s) => s.append('user/message', { ...userMessage('a'), content: [undefined as never] })],
    ['an unknown type', (s) => s.append('made/up' as 'turn/start', { turn: 2 })],
    ['a message of another role', (s) => s.append('user/message', message as never)],
    ['a message without an id', (s) => s.append('user/message', { ...userMessage('a'), id: '' as never })],
    ['a notice whose reason is none', (s) => s.append('user/message', noticed({ stopReason: 3 as never }))],
    ['a notice of less than no message', (s) => s.append('user/message', noticed({ waiting: -1 }))],
    ['an assistant message of no model', (s) => s.append('assistant/message', { ...at, message: { ...message, source: { kind: 'user' } } })],
    ['sources that are later', (s) => s.append('assistant/message', { ...at, message }, { sources: [2] })],
    ['a source named twice', (s) => s.append('assistant/message', { ...at, message }, { sources: [1, 0, 1] })],
    ['an empty list of sources of a user message', (s) => s.append('user/message', userMessage('a'), { sources: [] })],
    ['sources of an event beside the history', (s) => s.append('assistant/chunk', delta('a'), { sources: [0] })],
    ['a header without a provider', (s) => s.append('request/header', { header: { config: {} as never }, reason: 'initial' })],
  ]; // prettier-ignore

  it.each(wrong)('leaves the log untouched: %s', (_, append) => {
    const session = inStep();
    const before = session.events;
    expect(() => append(session)).toThrow(ArgumentError);
    expect(session.events).toBe(before);
    expect(session.deriveMessages()).toEqual([]);
  });

  it('is told of by name when it is deeper than any store could write', () => {
    let deep: unknown = 1;
    for (let level = 0; level < 2_000; level++) deep = [deep];
    const session = inStep();
    session.append('tool/call', toolCall('c'));
    expect(() =>
      session.append('tool/result', { ...toolResult('c'), meta: deep as never }),
    ).toThrow('tool/result');
  });
});

describe('a listener', () => {
  it('is told of each event once it is in the log, until it is taken back', () => {
    const session = aSession();
    const told: string[] = [];
    const stop = session.onAppend((event) => told.push(`${event.type} of ${session.seq}`));
    session.append('turn/start', { turn: 1 });
    stop();
    session.append('turn/end', { turn: 1, reason: { kind: 'completed' } });
    expect(told).toEqual(['turn/start of 1']);
  });

  it('cannot append to the session it listens to, and that session goes on', () => {
    const session = aSession();
    let thrown: unknown;
    session.onAppend(() => {
      try {
        session.append('user/message', userMessage('again'));
      } catch (error) {
        thrown = error;
      }
    });
    session.append('turn/start', { turn: 1 });
    expect(thrown).toBeInstanceOf(ArgumentError);
    expect(typesOf(session.events)).toEqual(['turn/start']);
    expect(() => session.append('user/message', userMessage('later'))).not.toThrow();
  });
});

describe('the events', () => {
  it('are one array until the next append, and an array held before does not grow', () => {
    const session = inStep();
    const held = session.events;
    expect(session.events).toBe(held);
    session.append('step/end', { turn: 1, step: 1 });
    expect(held).toHaveLength(2);
    expect(session.events).toHaveLength(3);
    expect(session.eventsFrom(2)).toEqual([session.events[2]]);
  });
});

describe('a seed', () => {
  const logOf = (turns: number): readonly SessionEvent[] => {
    const session = aSession();
    for (let turn = 1; turn <= turns; turn++) appendTurn(session, `answer ${turn}`);
    return session.events;
  };

  it('goes on where it ends: numbers, turns and history', () => {
    const seed = logOf(2);
    const session = aSession(seed);
    expect(session.firstLiveSeq).toBe(seed.length);
    expect(session.events).toEqual(seed);
    expect(session.lastTurn).toBe(2);
    expect(session.deriveMessages()).toHaveLength(4);
    expect(session.append('turn/start', { turn: 3 }).seq).toBe(seed.length);
  });

  it('may end inside a turn', () => {
    const session = aSession(logOf(1).slice(0, 3));
    expect(session.open).toMatchObject({ turn: 1, step: 1 });
  });

  it.each<[string, (log: SessionEvent[]) => unknown[]]>([
    ['with a gap', (log) => log.filter((_, index) => index !== 1)],
    ['of an unknown type', (log) => [{ ...log[0], type: 'made/up' }]],
    ['with an unknown key', (log) => [{ ...log[0], extra: 1 }]],
    [
      'whose surface is missing',
      (log) => log.map(({ type, seq, time, data }) => ({ type, seq, time, data })),
    ],
    ['that breaks the brackets', (log) => [{ ...log[4], seq: 0 }]],
    ['that is not JSON', (log) => [{ ...log[0], data: { turn: 1n } }]],
    ['without a time', (log) => [{ ...log[0], time: 'now' }]],
    ['of no events', () => [null]],
  ])('is refused %s', (_, change) => {
    const seed = change([...logOf(1)]) as readonly SessionEvent[];
    expect(() => aSession(seed)).toThrow(ArgumentError);
  });
});

describe('the header', () => {
  it('is a frozen copy of its own fields', () => {
    const given = { ...header('h', { cwd: '/work', delegationDepth: 1 }), more: true };
    const session = new Session({ header: given, clock: new ManualClock() });
    expect(session.header).toEqual(header('h', { cwd: '/work', delegationDepth: 1 }));
    expect(Object.isFrozen(session.header)).toBe(true);
  });

  it.each([
    [{ version: 1 }],
    [{ id: '' }],
    [{ createdAt: -1 }],
    [{ cwd: 'relative' }],
    [{ seedLength: 1.5 }],
    [{ origin: 'elsewhere' }],
    [{ delegationDepth: Number.NaN }],
  ])('is refused with %j', (wrong) => {
    const given = { ...header(), ...(wrong as object) };
    expect(() => new Session({ header: given, clock: new ManualClock() })).toThrow(ArgumentError);
  });
});

describe('the history', () => {
  it('is what was said and seen, in order, without answers that say nothing', () => {
    const session = inStep();
    session.append('user/message', userMessage('go'));
    session.append('assistant/message', { turn: 1, step: 1, message: assistantMessage() });
    session.append('assistant/message', {
      turn: 1,
      step: 1,
      message: assistantMessage(text('looking')),
    });
    session.append('tool/call', toolCall('c'));
    session.append('tool/result', toolResult('c'));
    expect(session.deriveMessages().map(({ content }) => content[0]?.type)).toEqual([
      'text',
      'text',
      'tool-result',
    ]);
  });

  it('is the same frozen array until a message joins it', () => {
    const session = inStep();
    session.append('user/message', userMessage('go'));
    const history = session.deriveMessages();
    session.append('assistant/chunk', delta('a'));
    expect(session.deriveMessages()).toBe(history);
    session.append('user/message', userMessage('more'));
    expect(history).toHaveLength(1);
    expect(session.deriveMessages()[0]).toBe(history[0]);
    expect(Object.isFrozen(history)).toBe(true);
  });
});

it('remembers the last request header and context, also from a seed', () => {
  const session = inStep(false);
  const config = { provider: 'p', model: 'm' };
  expect([session.lastHeader(), session.lastContext()]).toEqual([undefined, undefined]);
  session.append('request/header', { header: { config }, reason: 'initial' });
  session.append('request/header', { header: { config, system: 'be brief' }, reason: 'change' });
  session.append('request/context', { provider: 'p', model: 'm' });
  for (const one of [session, aSession(session.events)]) {
    expect(one.lastHeader()).toEqual({ config, system: 'be brief' });
    expect(one.lastContext()).toEqual({ provider: 'p', model: 'm' });
  }
});

it('does not claim to be durable when no store keeps it', async () => {
  const session = inStep();
  expect(session.durable).toBe(0);
  await expect(session.committed()).rejects.toThrow(ArgumentError);
});
