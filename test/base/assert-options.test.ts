import { expect, it } from 'vitest';
import { ArgumentError } from '../../protocol/errors.ts';
import { assertOptions, assertSignal } from '../../src/base/assert-options.ts';
import type { OptionKind } from '../../src/base/assert-options.ts';

const KINDS = { words: 'list', stop: 'signal', more: 'object' } as const satisfies Record<
  string,
  OptionKind
>;
const failure = new Error('not to be read');
const broken = (key: string): object =>
  Object.defineProperty({}, key, {
    enumerable: true,
    get() {
      throw failure;
    },
  });
const signalWithout = (method: 'throwIfAborted'): object =>
  Object.assign(new AbortController().signal, { [method]: undefined });
function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

it.each<[string, unknown, string]>([
  ['nothing', undefined, 'Things takes an object of options.'],
  ['a list', [], 'Things takes an object of options.'],
  ['a signal for the options', AbortSignal.abort(), 'a signal is given as `{ signal }`.'],
  ['what answers nothing', revoked(), 'Things takes an object of options.'],
  ['a name that nobody knows', { word: [] }, 'Things has no "word"; it has: words, stop, more.'],
  ['a name that every object has', { toString: 1 }, 'Things has no "toString"'],
  ['a text for a list', { words: 'a' }, '"words" of things takes a list.'],
  ['a list that answers nothing', { words: revoked() }, '"words" of things takes a list.'],
  [
    'a signal that nobody can ask',
    { stop: signalWithout('throwIfAborted') },
    'takes an AbortSignal.',
  ],
  ['a signal that cannot be read', { stop: broken('addEventListener') }, 'takes an AbortSignal.'],
  ['an option that cannot be read', broken('more'), 'Things has options that cannot be read.'],
])('refuses %s', (_, given, words) => {
  const check = (): void => assertOptions('things', given, KINDS);
  expect(check).toThrow(ArgumentError);
  expect(check).toThrow(words);
});

it('tells a signal its place where the options take none', () => {
  const check = (): void => assertOptions('things', AbortSignal.abort(), { words: 'list' });
  expect(check).toThrow('Things takes an object of options; a signal is given after them.');
});

it('takes a signal of its own, or none', () => {
  expect(() => assertSignal('things', undefined)).not.toThrow();
  expect(() => assertSignal('things', AbortSignal.abort())).not.toThrow();
  expect(() => assertSignal('things', { signal: AbortSignal.abort() })).toThrow(ArgumentError);
});

it('tells why an option cannot be read', () => {
  expect(() => assertOptions('things', broken('more'), KINDS)).toThrow(
    expect.objectContaining({ cause: failure }),
  );
});

it('takes what is absent or undefined for what it is', () => {
  expect(() => assertOptions('things', { words: undefined }, KINDS)).not.toThrow();
});
