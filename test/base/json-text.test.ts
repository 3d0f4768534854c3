import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { beyondBounds } from '../../src/base/json-text.ts';

const most = { depth: 8, values: 100 };

function sizeOf(value: unknown): { depth: number; values: number } {
  if (typeof value !== 'object' || value === null) return { depth: 0, values: 1 };
  const parts = Object.values(value).map(sizeOf);
  return {
    depth: 1 + Math.max(0, ...parts.map(({ depth }) => depth)),
    values: 1 + parts.reduce((sum, { values }) => sum + values, 0),
  };
}

describe('beyondBounds', () => {
  it.each([
    ['[]', undefined],
    ['"[[[[[[[[[[[[[["', undefined],
    ['"\\\\"', undefined],
    ['["\\"[[[[[[[[[[[[[["]', undefined],
    ['["\\\\",[[[[[[[[[[]]]]]]]]]]', 'depth'],
    ['[[[[[[[[[]]]]]]]]]', 'depth'],
    [`[${'1,'.repeat(99)}1]`, 'values'],
    ['{'.repeat(1_000_000), 'depth'],
    [`[${'{},'.repeat(300_000)}1]`, 'values'],
    [']]]]]]]]"', undefined],
  ])('says of %.40s that it is beyond in %s', (text, expected) => {
    expect(beyondBounds(text, most)).toBe(expected);
  });

  it('counts every value once, or an empty one twice, and nothing that is inside of texts', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 6 }), fc.nat(4), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        const { depth, values } = sizeOf(value);
        expect(beyondBounds(text, { depth, values: 2 * values })).toBeUndefined();
        if (depth > 0) expect(beyondBounds(text, { depth: depth - 1, values: 1e6 })).toBe('depth');
        if (values > 1) expect(beyondBounds(text, { depth, values: values - 1 })).toBe('values');
      }),
    );
  });
});
