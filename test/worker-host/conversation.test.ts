import { describe, expect, it } from 'vitest';
import { ProtocolError } from '../../protocol/errors.ts';
import { CallId, MessageId, StreamId } from '../../protocol/ids.ts';
import type { ModelPart } from '../../protocol/model.ts';
import type { WorkerEvent, WorkerTurnEnd } from '../../protocol/to-main.ts';
import { createUserMessage } from '../../src/agent/agent.ts';
import { eventTypes } from '../support/harness.ts';
import { textParts } from '../support/parts.ts';
import { chunkOf, config, policy, said, stepEnd, talk, turnEnd } from './talk.ts';

describe('a step', () => {
  it('is opened with what it is told, and a child says first how it was made', () => {
    const descriptor = { version: 1, mode: 'one-shot', provider: 'spawn' } as const;
    const { conversation, session } = talk(descriptor);
    const turn = conversation.openTurn();
    conversation.openStep(turn, [createUserMessage('one'), createUserMessage('two')]);
    conversation.closeStep(turn);
    conversation.openStep(turn, []);
    expect(eventTypes(session)).toEqual([
      'turn/start',
      'subagent/descriptor',
      'step/start',
      'user/message',
      'user/message',
      'step/end',
      'step/start',
    ]);
    expect(turn.step).toBe(2);
  });
});

describe('a request', () => {
  it('is written down when something in it is new', () => {
    const { conversation, session } = talk();
    const turn = conversation.openTurn();
    conversation.openStep(turn, []);
    expect(conversation.lastConfig).toBeUndefined();
    conversation.openRequest(turn, config);
    conversation.openRequest(turn, config);
    turn.system = () => 'You are brief.';
    conversation.openRequest(turn, config);
    conversation.openRequest(turn, { ...config, model: 'other' });
    expect(conversation.lastConfig).toEqual({ ...config, model: 'other' });
    const headers = session.events.flatMap(({ type, data }) =>
      type === 'request/header'
        ? [[data.reason, data.header.system, data.header.config.model]]
        : [],
    );
    expect(headers).toEqual([
      ['initial', undefined, 'm'],
      ['change', 'You are brief.', 'm'],
      ['change', 'You are brief.', 'other'],
    ]);
    expect(eventTypes(session).filter((type) => type === 'request/context')).toHaveLength(2);
  });

  it('shows the whole history, system text and tools, or leaves them out', () => {
    const { conversation, session } = talk();
    const turn = conversation.openTurn();
    conversation.openStep(turn, [createUserMessage('Hi')]);
    expect(conversation.openRequest(turn, config)).toEqual({
      ...config,
      messages: session.deriveMessages(),
      sessionId: 's',
    });
    turn.system = () => 'Brief.';
    turn.tools = [{ name: 't', description: '', parameters: { type: 'object' } }];
    const { tools } = turn;
    expect(conversation.openRequest(turn, config)).toMatchObject({ system: 'Brief.', tools });
  });
});

describe('what a thread asks for out of turn', () => {
  const failure = { code: 'SERVER', message: 'gone' };
  const finish = (kind: 'error' | 'aborted'): ModelPart => ({
    type: 'finish',
    reason: { kind, failure },
  });

  it.each(['error', 'aborted'] as const)(
    'may be the next attempt once a request ended with %s, which is handed over once',
    (kind) => {
      const { conversation, ask, request } = talk();
      const { turn } = request();
      expect(() => conversation.expectAttempt(turn, 2)).toThrow(ProtocolError);
      expect(conversation.expectAttempt(turn, 1)).toBeUndefined();
      const stream = ask(turn);
      expect(() => conversation.expectAttempt(turn, 2)).toThrow(ProtocolError);
      conversation.chunk(turn, stream, finish(kind));
      expect(() => conversation.expectAttempt(turn, 1)).toThrow(ProtocolError);
      expect(() => conversation.expectAttempt(turn, 3)).toThrow(ProtocolError);
      expect(conversation.expectAttempt(turn, 2)).toEqual({
        attempt: 1,
        provider: 'p',
        ...policy,
        failure,
      });
      expect(() => conversation.expectAttempt(turn, 3)).toThrow(ProtocolError);
    },
  );

  it('is refused when it is a next attempt after a good end, or a message', () => {
    const { conversation, ask, request } = talk();
    const { turn } = request();
    conversation.expectAttempt(turn, 1);
    conversation.chunk(turn, ask(turn), { type: 'finish', reason: { kind: 'stop' } });
    expect(() => conversation.expectAttempt(turn, 2)).toThrow(ProtocolError);
    const failed = ask(turn);
    conversation.chunk(turn, failed, finish('error'));
    conversation.event(said(failed, 0));
    expect(() => conversation.expectAttempt(turn, 2)).toThrow(ProtocolError);
  });

  it('may be the next attempt after a part that could not be logged', () => {
    const { conversation, session, ask, request } = talk();
    const { turn } = request();
    conversation.expectAttempt(turn, 1);
    const stream = ask(turn);
    const part = { type: 'text-delta', index: 0, text: undefined } as unknown as ModelPart;
    expect(() => conversation.chunk(turn, stream, part)).toThrow(/not JSON/);
    expect(session.events.at(-1)?.type).not.toBe('assistant/chunk');
    expect(conversation.expectAttempt(turn, 2)?.failure.code).toBe('INVALID_ARGUMENT');
  });

  it('is refused when it is a tool call that no message asks for', () => {
    const { conversation, request } = talk();
    const { stream } = request();
    const call = { turn: 1, step: 1, callId: CallId('c'), name: 't', arguments: '{}' };
    expect(() => conversation.expectCall(call)).toThrow(ProtocolError);
    const { type, data } = said(stream, 0);
    const block = { type: 'tool-call', id: CallId('c'), name: 't', arguments: '{}' } as const;
    conversation.event({ type, data: { ...data, message: { ...data.message, content: [block] } } });
    expect(conversation.expectCall(call).number).toBe(1);
  });

  it('has its unanswered and unmade calls answered as failed when the step ends all the same', () => {
    const { conversation, session, request } = talk();
    const { stream } = request();
    const { type, data } = said(stream, 0);
    const calls = ['made', 'unmade'].map(
      (id) => ({ type: 'tool-call', id: CallId(id), name: 't', arguments: '{}' }) as const,
    );
    conversation.event({ type, data: { ...data, message: { ...data.message, content: calls } } });
    const made = { turn: 1, step: 1, callId: CallId('made'), name: 't', arguments: '{}' };
    session.append('tool/call', made);
    conversation.event(stepEnd(1, 1));
    const codes = session.events.flatMap((event) =>
      event.type === 'tool/result' ? [event.data.error?.code] : [],
    );
    expect(codes).toEqual(['TOOL_OUTCOME_UNKNOWN', 'TOOL_NOT_STARTED']);
    expect(session.events.at(-1)?.type).toBe('step/end');
  });

  it('is refused when it is a second message of one stream', () => {
    const { conversation, request } = talk();
    const { stream } = request();
    conversation.event(said(stream, 0));
    expect(() => conversation.event(said(stream, 0))).toThrow(ProtocolError);
  });
});

describe('an assistant message', () => {
  it('cites the parts it was made of, and names the model that main asked', () => {
    const { conversation, session, request } = talk();
    const { turn, stream } = request();
    for (const part of textParts(0, 'Hel', 'lo.')) conversation.chunk(turn, stream, part);
    conversation.event(said(stream, 3));
    const chunks = session.events.filter(({ type }) => type === 'assistant/chunk');
    expect(session.events.at(-1)).toMatchObject({
      type: 'assistant/message',
      sourceEventSeqs: chunks.slice(0, 3).map(({ seq }) => seq),
      data: { message: { source: { kind: 'model', provider: 'p', model: 'm' } } },
    });
  });

  it('that claims more parts than there were cites those there were', () => {
    const { conversation, session, request } = talk();
    const { turn, stream } = request();
    conversation.chunk(turn, stream, { type: 'block-start', index: 0, blockType: 'text' });
    conversation.event(said(stream, 5));
    expect(session.events.at(-1)).toMatchObject({ sourceEventSeqs: [session.seq - 2] });
  });

  it('of a second attempt cites nothing of the first', () => {
    const { conversation, session, ask, request } = talk();
    const { turn, stream } = request();
    conversation.chunk(turn, stream, { type: 'block-start', index: 0, blockType: 'text' });
    const again = ask(turn);
    expect(again).not.toBe(stream);
    conversation.chunk(turn, again, { type: 'block-start', index: 0, blockType: 'text' });
    conversation.event(said(again, 1));
    const chunks = session.events.filter(({ type }) => type === 'assistant/chunk');
    expect(session.events.at(-1)).toMatchObject({ sourceEventSeqs: [chunks[1]?.seq] });
  });
});

describe('parts of a stream', () => {
  it('are not kept once the turn was told to stop, or is another', () => {
    const { conversation, session, request } = talk();
    const { turn, stream } = request();
    const part = { type: 'block-start', index: 0, blockType: 'text' } as const;
    conversation.chunk(turn, stream, part);
    turn.cancel({ kind: 'user' });
    const { seq } = session;
    conversation.chunk(turn, stream, part);
    conversation.close({ kind: 'aborted', reason: { kind: 'user' } });
    conversation.chunk(turn, stream, part);
    expect(session.events.slice(seq).map(({ type }) => type)).toEqual(['step/end', 'turn/end']);
  });

  it('may come from the thread when the model runs there', () => {
    const { conversation, session, request } = talk();
    const { stream } = request(true);
    conversation.event(chunkOf(stream));
    expect(session.events.at(-1)?.data).toEqual({
      turn: 1,
      step: 1,
      chunk: { type: 'block-start', index: 0, blockType: 'text' },
    });
  });
});

describe('a turn', () => {
  it.each<[string, WorkerTurnEnd, object]>([
    ['is completed', { kind: 'completed' }, { kind: 'completed' }],
    ['ran out of tokens', { kind: 'max-tokens' }, { kind: 'max-tokens' }],
    [
      'failed',
      { kind: 'error', error: { code: 'E', message: 'No.' } },
      { kind: 'error', error: { code: 'E', message: 'No.' } },
    ],
  ])('that %s ends as its thread says', (_, told, logged) => {
    const { conversation, session, request } = talk();
    request();
    conversation.event(stepEnd(1, 1));
    expect(conversation.event(turnEnd(1, told))).toEqual(logged);
    expect(session.events.at(-1)?.data).toEqual({ turn: 1, reason: logged });
    expect(conversation.open).toBeUndefined();
  });

  it.each([{}, { reason: 'Not today.' }])('that was refused says why: %o', (block) => {
    const { conversation, session } = talk();
    conversation.openTurn().block = block;
    expect(conversation.event(turnEnd(1, { kind: 'blocked' }))).toEqual({
      kind: 'blocked',
      ...block,
    });
    expect(session.events.at(-1)?.data).toEqual({ turn: 1, reason: { kind: 'blocked', ...block } });
  });

  it('that was told to stop ends with the first cause, of which a limit is an error', () => {
    const { conversation, request } = talk();
    const { turn } = request();
    expect(turn.cancel({ kind: 'limit', limit: 'turnMs' })).toBe(true);
    expect(turn.cancel({ kind: 'user' })).toBe(false);
    expect(turn.signal.aborted).toBe(true);
    conversation.event(stepEnd(1, 1));
    expect(conversation.event(turnEnd(1, { kind: 'aborted' }))).toEqual({
      kind: 'error',
      error: { code: 'LIMIT_EXCEEDED', message: 'Too much turnMs.' },
    });
  });

  it('whose thread is gone is closed here: calls first, then step and turn', () => {
    const { conversation, session, request } = talk();
    const { turn } = request();
    session.append('assistant/message', {
      turn: 1,
      step: 1,
      message: {
        id: MessageId('y'),
        role: 'assistant',
        content: [{ type: 'tool-call', id: CallId('c'), name: 't', arguments: '{}' }],
        source: { kind: 'model', ...config },
      },
    });
    session.append('tool/call', {
      turn: 1,
      step: 1,
      callId: CallId('c'),
      name: 't',
      arguments: '{}',
    });
    conversation.close({ kind: 'error', error: { code: 'WORKER_EXITED', message: 'Gone.' } });
    expect(eventTypes(session).slice(-3)).toEqual(['tool/result', 'step/end', 'turn/end']);
    expect(turn.signal.aborted).toBe(true);
    const { seq } = session;
    conversation.close({ kind: 'interrupted' });
    expect(session.seq).toBe(seq);
  });
});

describe('what does not fit what is open is refused, and not logged:', () => {
  const other = StreamId('m9');
  it.each<[string, (given: { stream: StreamId }) => WorkerEvent]>([
    ['the end of another step', () => stepEnd(1, 2)],
    ['the end of a step of another turn', () => stepEnd(2, 1)],
    ['the end of the turn inside of its step', () => turnEnd(1, { kind: 'completed' })],
    ['the end of another turn', () => turnEnd(2, { kind: 'completed' })],
    ['a message of a stream that was not opened', () => said(other, 0)],
    ['a message of another step', ({ stream }) => said(stream, 0, 2)],
    ['parts of a stream that main holds', ({ stream }) => chunkOf(stream)],
    ['parts of a stream that was not opened', () => chunkOf(other)],
  ])('%s', (_, event) => {
    const { conversation, session, request } = talk();
    const given = request();
    const { seq } = session;
    expect(() => conversation.event(event(given))).toThrow(
      expect.objectContaining({ code: 'PROTOCOL_VIOLATION' }),
    );
    expect(session.seq).toBe(seq);
  });

  it('anything while no turn is open', () => {
    const { conversation } = talk();
    for (const event of [stepEnd(1, 1), turnEnd(1, { kind: 'completed' }), said(other, 0)]) {
      expect(() => conversation.event(event)).toThrow(
        expect.objectContaining({ code: 'PROTOCOL_VIOLATION' }),
      );
    }
  });

  it('a refusal that nobody decided', () => {
    const { conversation, request } = talk();
    request();
    conversation.event(stepEnd(1, 1));
    expect(() => conversation.event(turnEnd(1, { kind: 'blocked' }))).toThrow(/nobody decided/);
  });

  it('an abort that nobody asked for', () => {
    const { conversation, request } = talk();
    request();
    conversation.event(stepEnd(1, 1));
    expect(() => conversation.event(turnEnd(1, { kind: 'aborted' }))).toThrow(/nobody asked for/);
  });
});
