import { describe, expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { CallId } from '../../protocol/ids.ts';
import type { Session } from '../../src/session/session.ts';
import { TOOL_NOT_STARTED } from '../../src/session/brackets.ts';
import {
  aSession,
  appendTurn,
  asks,
  assistantMessage,
  delta,
  inStep,
  text,
  toolCall,
  toolResult,
  userMessage,
} from './log-parts.ts';

const completed = { kind: 'completed' } as const;
const at = { turn: 1, step: 1 };
const later = { turn: 1, step: 2 };
const failure = { message: 'no', code: 'SERVER' };
const retry = { retryId: 'r', provider: 'p', retry: 1, maxRetries: 5, delayMs: 1, failure };
const config = { provider: 'p', model: 'm' };

type Append = (session: Session) => unknown;

describe('between turns', () => {
  it.each<[string, Append]>([
    ['a turn that skips a number', (s) => s.append('turn/start', { turn: 3 })],
    ['a turn of the last number', (s) => s.append('turn/start', { turn: 1 })],
    ['the end of a turn', (s) => s.append('turn/end', { turn: 1, reason: completed })],
    ['a step', (s) => s.append('step/start', at)],
    ['the end of a step', (s) => s.append('step/end', at)],
    ['a chunk', (s) => s.append('assistant/chunk', delta('a'))],
    [
      'a request header',
      (s) => s.append('request/header', { header: { config }, reason: 'change' }),
    ],
    ['a request context', (s) => s.append('request/context', config)],
  ])('refuses %s', (_, append) => {
    const session = aSession();
    appendTurn(session, 'one');
    expect(() => append(session)).toThrow(ArgumentError);
  });

  it('takes messages, splices and marks', () => {
    const session = aSession();
    session.append('user/message', userMessage('context'));
    session.append('agent/inbox/spliced', { target: 'next-turn', start: 0, inserted: [] });
    session.append('session/end-seed', {});
    expect(session.seq).toBe(3);
    expect(session.open).toBeUndefined();
  });
});

describe('in a turn, between steps', () => {
  it.each<[string, Append]>([
    ['another turn', (s) => s.append('turn/start', { turn: 2 })],
    ['the end of another turn', (s) => s.append('turn/end', { turn: 2, reason: completed })],
    ['a step that skips a number', (s) => s.append('step/start', later)],
    ['a step of another turn', (s) => s.append('step/start', { turn: 2, step: 1 })],
    ['a message of the model', (s) => s.append('assistant/message', { ...at, message: assistantMessage(text('a')) })],
    ['a tool call', (s) => s.append('tool/call', toolCall('c'))],
  ])('refuses %s', (_, append) => {
    expect(() => append(inStep(false))).toThrow(ArgumentError);
  }); // prettier-ignore

  it('takes the request header and the end of the turn', () => {
    const session = inStep(false);
    session.append('request/header', { header: { config }, reason: 'initial' });
    session.append('turn/end', { turn: 1, reason: { kind: 'blocked' } });
    expect(session.lastTurn).toBe(1);
  });
});

describe('in a step', () => {
  it.each<[string, Append]>([
    ['the end of the turn', (s) => s.append('turn/end', { turn: 1, reason: completed })],
    ['another step', (s) => s.append('step/start', later)],
    ['the end of another step', (s) => s.append('step/end', later)],
    ['a chunk of another step', (s) => s.append('assistant/chunk', delta('a', later))],
    ['a retry of another step', (s) => s.append('llm/retry', { ...retry, ...later })],
    ['a call of another turn', (s) => s.append('tool/call', toolCall('c', { turn: 2, step: 1 }))],
    ['a result without a call', (s) => s.append('tool/result', toolResult('c'))],
    ['a failed result without a call', (s) => s.append('tool/result', { ...toolResult('c', at, { isError: true }), error: { name: 'E', code: 'ABORTED' } })],
  ])('refuses %s', (_, append) => {
    expect(() => append(inStep())).toThrow(ArgumentError);
  }); // prettier-ignore

  it('counts steps from 1 in each turn', () => {
    const session = aSession();
    appendTurn(session, 'one');
    session.append('turn/start', { turn: 2 });
    session.append('step/start', { turn: 2, step: 1 });
    session.append('step/end', { turn: 2, step: 1 });
    session.append('step/start', { turn: 2, step: 2 });
    expect(session.open).toMatchObject({ turn: 2, step: 2 });
  });

  it('refuses a second result of one call, and a call that is unanswered already', () => {
    const session = inStep();
    session.append('tool/call', toolCall('c'));
    expect(() => session.append('tool/call', toolCall('c'))).toThrow('unanswered');
    session.append('tool/result', toolResult('c'));
    expect(() => session.append('tool/result', toolResult('c'))).toThrow('not waiting');
  });

  it('takes a result of a call that was never started only from repair', () => {
    const session = inStep();
    const error = { name: 'ToolError', code: TOOL_NOT_STARTED };
    expect(() => session.append('tool/result', { ...toolResult('c'), error })).toThrow();
    session.append('tool/result', { ...toolResult('c', at, { isError: true }), error });
    expect(session.deriveMessages()).toHaveLength(1);
  });

  it('knows which calls have no result and which were not started, until the step ends', () => {
    const session = inStep();
    const message = assistantMessage(text('look'), asks('a'), asks('b'), asks('c'));
    session.append('assistant/message', { ...at, message });
    session.append('tool/call', toolCall('a'));
    const { seq } = session.append('tool/call', toolCall('b'));
    session.append('tool/result', toolResult('a'));
    expect([...(session.open?.unanswered ?? [])]).toEqual([[CallId('b'), { seq, name: 'look' }]]);
    expect([...(session.open?.unstarted.keys() ?? [])]).toEqual(['c']);
    session.append('step/end', at);
    const { turn, step, unanswered, unstarted } = session.open ?? {};
    expect([turn, step, unanswered?.size, unstarted?.size]).toEqual([1, undefined, 0, 0]);
  });
});
