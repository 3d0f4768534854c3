import { expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { owned, Scope } from '../../src/base/scope.ts';

it.each([
  ['null', null],
  ['a scope that is none', { scope: 5 }],
  ['an object that is no scope', { scope: { add() {}, isDisposed: false } }],
  ['a name that does not exist', { owner: new Scope() }],
])('refuses %s as an owner, and registers nothing', (_, owner) => {
  let registered = 0;
  const register = (): (() => void) => {
    registered++;
    return () => {};
  };
  expect(() => owned(owner as never, register)).toThrow(ArgumentError);
  expect(registered).toBe(0);
});
