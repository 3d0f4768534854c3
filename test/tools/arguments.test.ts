import { expect, it } from 'vitest';
import { parseArguments } from '../../src/tools/arguments.ts';

it('gives JSON data, frozen to the bottom', () => {
  const { args, problem } = parseArguments('{"a": {"b": [1]}}');
  expect(problem).toBeUndefined();
  expect(args).toEqual({ a: { b: [1] } });
  expect(Object.isFrozen((args as { a: { b: unknown } }).a.b)).toBe(true);
});

it('gives an object without properties for no text', () => {
  expect(parseArguments('')).toEqual({ args: {} });
  expect(parseArguments(' \n')).toEqual({ args: {} });
});

it('keeps the raw text of what is no JSON, and says why', () => {
  const { args, problem } = parseArguments('{"a": ');
  expect(args).toBe('{"a": ');
  expect(problem).toMatch(/^they are not valid JSON \(.+\)$/);
});

it('keeps a key that would be a prototype as data', () => {
  const { args } = parseArguments('{"__proto__": {"a": 1}}');
  expect(Object.keys(args as object)).toEqual(['__proto__']);
  expect((args as { a?: unknown }).a).toBeUndefined();
});

it('turns a negative zero into zero', () => {
  const { args } = parseArguments('{"a": -0, "b": [-0]}');
  expect(Object.is((args as { a: number }).a, 0)).toBe(true);
  expect(Object.is((args as { b: number[] }).b[0], 0)).toBe(true);
  expect(Object.is(parseArguments('-0').args, 0)).toBe(true);
});

it('takes the last value of a key that is given twice', () => {
  expect(parseArguments('{"a": 1, "b": 2, "a": {"c": 3}}')).toEqual({
    args: { a: { c: 3 }, b: 2 },
  });
});

it.each([
  ['too deep', `{"a": ${'['.repeat(129)}${']'.repeat(129)}}`, 'nested more than 128 levels deep'],
  ['too many', `[${'0,'.repeat(50_000)}0]`, 'hold more than 50000 values'],
  ['too large', '{"a": [1e999]}', 'hold a number that is too large'],
])('refuses what is %s', (_, raw, problem) => {
  expect(parseArguments(raw).problem).toContain(problem);
});
