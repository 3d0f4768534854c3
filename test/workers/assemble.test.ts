import { describe, expect, it } from 'vitest';
import { CallId } from '../../protocol/ids.ts';
import type { ModelPart } from '../../protocol/model.ts';
import { Assembler, toolCallsOf } from '../../workers/agent/assemble.ts';
import { begins, callParts, textParts } from '../support/parts.ts';

function assembled(...parts: readonly ModelPart[]): Assembler {
  const assembler = new Assembler();
  for (const part of parts) assembler.push(part);
  return assembler;
}
const callDelta = (index: number, id: string, name?: string, argumentsDelta = ''): ModelPart => ({
  type: 'tool-call-delta',
  index,
  id: CallId(id),
  ...(name === undefined ? {} : { name }),
  argumentsDelta,
});

describe('Assembler', () => {
  it('keeps blocks in the order in which their index was first seen', () => {
    const { length } = begins('');
    const parts = [
      ...textParts(5, 'first'),
      ...begins('second', 2),
      { type: 'text-delta', index: 2, text: '!' } as const,
      ...callParts(9, 'c', 'read'),
    ];
    expect(length).toBe(2);
    expect(assembled(...parts).content()).toEqual([
      { type: 'text', text: 'first' },
      { type: 'text', text: 'second!' },
      { type: 'tool-call', id: 'c', name: 'read', arguments: '{}' },
    ]);
  });

  it('lets the end of a block win over its deltas, and passes over later ones', () => {
    const assembler = assembled(
      ...begins('draft'),
      { type: 'block-end', index: 0, block: { type: 'text', text: 'final' } },
      { type: 'text-delta', index: 0, text: ' too late' },
    );
    expect(assembler.content()).toEqual([{ type: 'text', text: 'final' }]);
  });

  it('takes deltas of blocks that were never started or ended', () => {
    const assembler = assembled(
      { type: 'reasoning-delta', index: 0, text: 'hm' },
      callDelta(1, 'c1', 'read', '{"a"'),
      callDelta(1, 'c1', undefined, ':1}'),
    );
    expect(assembler.content()).toEqual([
      { type: 'reasoning', text: 'hm' },
      { type: 'tool-call', id: 'c1', name: 'read', arguments: '{"a":1}' },
    ]);
  });

  it('drops text blocks that stayed empty', () => {
    expect(assembled(...textParts(0, '')).content()).toEqual([]);
  });

  it.each([
    ['missing', ['', ''], ['call-0', 'call-1']],
    ['repeated', ['x', 'x', 'x'], ['x', 'call-1', 'call-2']],
    ['like one we would make', ['call-1', ''], ['call-1', 'call-1-2']],
    ['too long to be kept', ['x'.repeat(257), 'y'], ['call-0', 'y']],
  ])('gives every call an id of its own when ids are %s', (_, ids, expected) => {
    const assembler = assembled(...ids.map((id, index) => callDelta(index, id, 'read')));
    expect(toolCallsOf(assembler.content()).map(({ id }) => id)).toEqual(expected);
  });

  it('shows of a cut off stream what is not blank, and no calls', () => {
    const assembler = assembled(
      { type: 'reasoning-delta', index: 0, text: 'thinking' },
      { type: 'text-delta', index: 1, text: ' \n' },
      { type: 'text-delta', index: 2, text: 'Half a sen' },
      ...callParts(3, 'c', 'read'),
    );
    expect(assembler.visible()).toEqual([
      { type: 'reasoning', text: 'thinking' },
      { type: 'text', text: 'Half a sen' },
    ]);
  });

  it('counts every part, and keeps the usage and the end', () => {
    const usage = { inputTokens: 3, outputTokens: 4 };
    const assembler = assembled(
      ...textParts(0, 'a', 'b'),
      { type: 'usage', usage },
      { type: 'finish', reason: { kind: 'max-tokens' }, replayState: { a: 1 } },
    );
    expect(assembler.count).toBe(6);
    expect(assembler.usage).toEqual(usage);
    expect(assembler.reason).toEqual({ kind: 'max-tokens' });
    expect(assembler.replayState).toEqual({ a: 1 });
  });

  it('takes a stream without an end as stopped', () => {
    expect(assembled(...begins('a')).reason).toEqual({ kind: 'stop' });
  });
});
