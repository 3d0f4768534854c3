import { expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { owned } from '../../src/base/scope.ts';

it.each([
  ['null', null],
  ['a scope that is none', { scope: 5 }],
])('refuses %s as an owner, and registers nothing', (_, owner) => {
  let registered = 0;
  const register = (): (() => void) => {
    registered++;
    return () => {};
  };
  expect(() => owned(owner as never, register)).toThrow(ArgumentError);
  expect(registered).toBe(0);
});
