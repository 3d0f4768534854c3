/** The grammar as `streamModel` applies it to whatever an adapter yields. */
import { describe, expect, it } from 'vitest';
import { MAX_ANSWER_BYTES } from '../../protocol/model-grammar.ts';
import { readStream, yields } from '../support/adapters.ts';
import { call, ends, endsWith, says, start, stop, textBlock } from './loose-parts.ts';

describe('the grammar of a stream', () => {
  describe('malformed parts', () => {
    const nameless = { type: 'tool-call', id: 'c1', name: '', arguments: '' };
    it.each<[string, unknown[]]>([
      ['no object', [7]],
      ['null', [null]],
      ['an unknown type', [{ type: 'text-start', id: '1' }]],
      ['no index', [{ type: 'text-delta', text: 'x' }]],
      ['a negative index', [start(-1, 'text')]],
      ['an unknown block', [start(0, 'image')]],
      [
        'a delta of another kind',
        [start(0, 'text'), { type: 'reasoning-delta', index: 0, text: '' }],
      ],
      ['no text', [start(0, 'text'), says(0, 5 as never)]],
      ['an end without content', [start(0, 'text'), { type: 'block-end', index: 0 }]],
      ['an end of another kind', [start(0, 'text'), ends(0, call)]],
      ['a second start', [...textBlock, start(0, 'text')]],
      ['arguments that are no text', [ends(0, { ...call, arguments: {} })]],
      ['a call without a name', [start(0, 'tool-call'), ends(0, nameless)]],
      ['a finish without a reason', [{ type: 'finish' }]],
      ['a finish of an unknown reason', [{ type: 'finish', reason: { kind: 'bored' } }]],
      ['a replay state that is no JSON', [{ ...stop, replayState: () => {} }]],
      [
        'a part that throws',
        [
          {
            get type() {
              throw new Error('no');
            },
          },
        ],
      ],
    ])('fail with INVALID_RESPONSE: %s', async (_name, given) => {
      const parts = await readStream(yields(...given, stop));
      expect(parts.slice(-1)).toEqual(endsWith('INVALID_RESPONSE'));
      expect(parts.filter((part) => part.type === 'finish')).toHaveLength(1);
    });

    it('are mended where the meaning is clear', async () => {
      const delta = { type: 'tool-call-delta', index: 1, argumentsDelta: '{' };
      const parts = await readStream(
        yields(
          says(0, 'Hi'),
          ends(0, { type: 'text', text: 'Hi', extra: true }),
          says(0, ' late'),
          { ...delta, name: 'add' },
          { ...delta, argumentsDelta: '}' },
          { type: 'usage', usage: { inputTokens: -1 } },
          { type: 'usage', usage: { inputTokens: 1, outputTokens: 1, reasoningTokens: 0.5 } },
          { type: 'usage', usage: { inputTokens: 9, outputTokens: 9 } },
          { type: 'finish', reason: { kind: 'tool-calls' } },
        ),
      );
      expect(parts).toEqual([
        ...textBlock,
        start(1, 'tool-call'),
        { type: 'tool-call-delta', index: 1, id: 'call-1', name: 'add', argumentsDelta: '{' },
        { type: 'tool-call-delta', index: 1, id: 'call-1', argumentsDelta: '}' },
        { type: 'usage', usage: { inputTokens: 1, outputTokens: 1 } },
        ends(1, { type: 'tool-call', id: 'call-1', name: 'add', arguments: '{}' }),
        { type: 'finish', reason: { kind: 'tool-calls' } },
      ]);
    });

    it('tells calls apart whose ids are the same, and shortens names that fit no frame', async () => {
      const parts = await readStream(
        yields(
          ends(0, call),
          ends(1, call),
          ends(2, { ...call, id: 'x'.repeat(999), name: 'n'.repeat(999) }),
          stop,
        ),
      );
      const blocks = parts.filter((part) => part.type === 'block-end').map((part) => part.block);
      expect(blocks).toMatchObject([
        { id: 'c1' },
        { id: 'c1-1' },
        { id: `${'x'.repeat(200)}-2`, name: 'n'.repeat(256) },
      ]);
    });
  });

  describe('size', () => {
    it('passes a long delta on in pieces that cut no character', async () => {
      const text = `x${'😀'.repeat(40_000)}`;
      const parts = await readStream(yields(says(0, text), stop));
      const pieces = parts.filter((part) => part.type === 'text-delta').map((part) => part.text);
      expect(pieces.length).toBeGreaterThan(1);
      expect(pieces.join('')).toBe(text);
      expect(pieces.some((piece) => /[\ud800-\udbff]$/.test(piece))).toBe(false);
    });

    it.each([
      ['text', (n: number) => [says(0, 'é'.repeat(n / 2)), says(0, 'x')]],
      ['a whole block', (n: number) => [ends(0, { type: 'text', text: 'x'.repeat(n + 1) })]],
      ['a replay state', (n: number) => [{ ...stop, replayState: 'x'.repeat(n) }]],
    ])('ends an answer that fits no frame: %s', async (_name, given) => {
      const parts = await readStream(yields(...given(MAX_ANSWER_BYTES)));
      expect(parts.slice(-1)).toEqual(endsWith('RESPONSE_TOO_LARGE'));
    });

    it('lets an answer through that just fits', async () => {
      const block = { type: 'text', text: 'x'.repeat(MAX_ANSWER_BYTES) };
      expect((await readStream(yields(says(0, block.text), ends(0, block), stop))).at(-1)).toEqual(
        stop,
      );
    });
  });
});
