import { expect, it } from 'vitest';
import { withinTime } from '../../src/base/within-time.ts';

it('gives what was returned, or throws what was thrown', () => {
  expect(withinTime(60_000, () => undefined)).toEqual({ value: undefined });
  expect(withinTime(60_000, () => withinTime(60_000, () => 'inside'))).toEqual({
    value: { value: 'inside' },
  });
  const error = new RangeError('mine');
  expect(() =>
    withinTime(60_000, () => {
      throw error;
    }),
  ).toThrow(error);
});

it('ends a loop, and a pattern that tries everything', () => {
  const forever = (): never => {
    for (;;);
  };
  expect(withinTime(20, forever)).toBeUndefined();
  expect(withinTime(20, () => /^(a+)+$/.test(`${'a'.repeat(60)}!`))).toBeUndefined();
  expect(withinTime(60_000, () => 1)).toEqual({ value: 1 });
});
