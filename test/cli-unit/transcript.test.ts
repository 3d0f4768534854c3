import { expect, it } from 'vitest';
import type { SessionEvent } from '../../src/index.ts';
import { Transcript } from '../../src/cli/transcript.ts';

const event = (type: SessionEvent['type'], data: object, time = 0): SessionEvent =>
  ({ type, seq: 0, time, data }) as unknown as SessionEvent;
const text = (...lines: readonly string[]): object => [{ type: 'text', text: lines.join('\n') }];
const textOf = (...events: readonly SessionEvent[]): readonly string[] => {
  const transcript = new Transcript();
  return events
    .map((each) => transcript.textOf(each))
    .join('')
    .split('\n');
};
const result = (content: object, isError = false): SessionEvent =>
  event('tool/result', {
    message: {
      source: { kind: 'tool', callId: '1' },
      content: [{ type: 'tool-result', toolCallId: '1', isError, content }],
    },
  });
const call = event('tool/call', { turn: 1, step: 1, callId: '1', name: 'look', arguments: '{}' });

it('reads as a conversation', () => {
  const usage = { inputTokens: 1200, outputTokens: 34 };
  expect(
    textOf(
      event('turn/start', { turn: 1 }, 1000),
      event('user/message', { source: { kind: 'user' }, content: text('Look.', '', 'Then go.') }),
      event('user/message', { source: { kind: 'coordinator' }, content: text('Now.') }),
      event('assistant/message', { message: { content: text('I look.') }, usage }),
      call,
      result(text('a', 'b')),
      event('assistant/message', { message: { content: text('I') }, interrupted: true }),
      event('turn/end', { turn: 1, reason: { kind: 'aborted', reason: { kind: 'user' } } }, 3500),
    ),
  ).toEqual([
    '00:00:00 user',
    '  Look.',
    '',
    '  Then go.',
    '00:00:00 agent above',
    '  Now.',
    '00:00:00 agent (1.2k tokens)',
    '  I look.',
    '00:00:00 → look {}',
    '00:00:00 ← look',
    '  a',
    '  b',
    '00:00:00 agent (cut off)',
    '  I',
    '00:00:03 turn 1 stopped (user) (2.5 s)',
    '',
    '',
  ]);
});

it('says why a turn, a call or a request failed', () => {
  const error = { code: 'AUTH', message: 'Bad key.' };
  expect(
    textOf(
      call,
      result(text('No.'), true),
      event('llm/retry', { retry: 1, maxRetries: 2, failure: { message: 'busy' } }),
      event('turn/end', { turn: 1, reason: { kind: 'error', error } }),
    ),
  ).toEqual([
    '00:00:00 → look {}',
    '00:00:00 ✗ look',
    '  No.',
    '00:00:00 retry 1 of 2: busy',
    '00:00:00 turn 1 failed: AUTH: Bad key. (0.0 s)',
    '',
    '',
  ]);
});

it('shortens what a tool gave, and says how much that was', () => {
  const lines = Array.from({ length: 9 }, (_, index) => `line ${index}`);
  expect(textOf(call, result(text(...lines, 'x'.repeat(400)))).slice(2)).toEqual([
    ...lines.slice(0, 5).map((line) => `  ${line}`),
    '  … 5 more lines',
    '',
  ]);
});

it('prints nothing that could move the cursor', () => {
  const shown = textOf(
    event('user/message', { source: { kind: 'user' }, content: text('\u001B[2Jgone\u0007') }),
    event('tool/call', { callId: '2', name: '\u001B[1Ax', arguments: '"\u001B[1A"' }),
  ).join('');
  expect(shown).not.toMatch(/\p{Cc}/u);
});
