import { describe, expect, it } from 'vitest';
import { finalOutput, OutputFold } from '../../src/session/output.ts';
import type { Session } from '../../src/session/session.ts';
import { asks, assistantMessage, delta, inStep, text, toolCall, toolResult } from './log-parts.ts';

const at = { turn: 1, step: 1 };
const outputOf = (write: (session: Session) => void) => {
  const session = inStep();
  write(session);
  return finalOutput(session.events);
};

describe('the final output', () => {
  it('is the last message, though an empty one follows', () => {
    const output = outputOf((session) => {
      session.append('assistant/message', { ...at, message: assistantMessage(text('first')) });
      session.append('assistant/message', { ...at, message: assistantMessage(text('last')) });
      session.append('assistant/message', { ...at, message: assistantMessage() });
    });
    expect(output).toEqual([text('last')]);
  });

  it('is the message, though text was streamed before and after it', () => {
    const output = outputOf((session) => {
      session.append('assistant/chunk', delta('before'));
      session.append('assistant/message', { ...at, message: assistantMessage(text('said')) });
      session.append('assistant/chunk', delta('after'));
    });
    expect(output).toEqual([text('said')]);
  });

  it('is a message without any text, if that is the last one', () => {
    const output = outputOf((session) => {
      session.append('assistant/message', { ...at, message: assistantMessage(text('said')) });
      session.append('assistant/message', { ...at, message: assistantMessage(asks('c')) });
    });
    expect(output).toEqual([asks('c')]);
  });

  it('is the streamed text when there is no message, and nothing else that was streamed', () => {
    const output = outputOf((session) => {
      session.append('assistant/chunk', delta('par'));
      const chunk = { type: 'reasoning-delta', index: 1, text: 'hm' } as const;
      session.append('assistant/chunk', { ...at, chunk });
      session.append('tool/call', toolCall('c'));
      session.append('tool/result', toolResult('c'));
      session.append('assistant/chunk', delta('tial'));
    });
    expect(output).toEqual([text('partial')]);
  });

  it('is absent when nothing was said', () => {
    expect(outputOf(() => {})).toBeUndefined();
  });

  it('can be asked for at any time, from text of anywhere', () => {
    const fold = new OutputFold();
    fold.pushText('');
    expect(fold.collect()).toBeUndefined();
    fold.pushText('a');
    expect(fold.collect()).toEqual([text('a')]);
    fold.pushText('b');
    expect(fold.collect()).toEqual([text('ab')]);
  });
});
