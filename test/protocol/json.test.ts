import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { pack, unpack } from '../../protocol/codec.ts';
import {
  copyDecoded,
  deepFreeze,
  frozenCopy,
  isPlainObject,
  losslessCopy,
} from '../../protocol/json.ts';
import type { Json } from '../../protocol/json.ts';

const nested = (depth: number): unknown => {
  let value: unknown = 'end';
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { in: value };
  return value;
};

describe('losslessCopy', () => {
  it('copies every JSON value exactly, and shares nothing with it', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false } as never), (value) => {
        const given = JSON.parse(JSON.stringify(value)) as unknown;
        const copy = losslessCopy(given);
        expect(copy).toEqual(given);
        expect(JSON.stringify(copy)).toBe(JSON.stringify(given));
        if (typeof given === 'object' && given !== null) expect(copy).not.toBe(given);
      }),
    );
  });

  it.each([
    ['undefined', { a: [1, undefined] }, '"a.1" is undefined'],
    ['a function', { a: () => 1 }, '"a" is a function'],
    ['a symbol', [Symbol('s')], '"0" is a symbol'],
    ['a bigint', 1n, 'the value is a bigint'],
    ['NaN', { a: { b: Number.NaN } }, '"a.b" is not a finite number'],
    ['an infinity', [Infinity], '"0" is not a finite number'],
    ['negative zero', { a: -0 }, '"a" is negative zero'],
    ['a sparse array', { a: [1, , 3] }, '"a" is a sparse array'], // eslint-disable-line no-sparse-arrays
    ['an array with extra keys', Object.assign([1], { more: 2 }), 'extra keys'],
    ['a class instance', { at: new Date(0) }, '"at" is a Date instance'],
    ['a map', new Map(), 'the value is a Map instance'],
    ['a symbol key', { a: { [Symbol('s')]: 1 } }, '"a.Symbol(s)" is keyed by a symbol'],
    ['a hidden key', Object.defineProperty({}, 'h', { value: 1 }), '"h" is not enumerable'],
  ])('refuses %s, naming the place', (_, value, message) => {
    expect(() => losslessCopy(value)).toThrow(TypeError);
    expect(() => losslessCopy(value)).toThrow(message);
  });

  it.each([1, 5, 100])('refuses a cycle %i levels long', (levels) => {
    const root: Record<string, unknown> = {};
    let last = root;
    for (let level = 1; level < levels; level++) last = last['next'] = {};
    last['next'] = root;
    const place = Array.from({ length: levels }, () => 'next').join('.');
    expect(() => losslessCopy(root)).toThrow(`"${place}" is part of a cycle`);
  });

  it('accepts one object in two places that do not hold each other, however deep', () => {
    const shared = { a: [1] };
    expect(losslessCopy([shared, { shared }])).toEqual([shared, { shared }]);
    let deep: unknown = [shared, shared, [shared]];
    for (let level = 0; level < 50; level++) deep = [deep, shared];
    expect(losslessCopy(deep)).toEqual(deep);
  });

  it('has no limit of depth', () => {
    let copy = losslessCopy(nested(100_000)) as unknown;
    let depth = 0;
    for (; typeof copy === 'object'; depth++) copy = Object.values(copy as object)[0];
    expect([depth, copy]).toEqual([100_000, 'end']);
  });

  it('keeps the order of keys, and `__proto__` as a key like any other', () => {
    const given = JSON.parse('{"z":1,"__proto__":{"evil":true},"a":2}') as object;
    const copy = losslessCopy(given) as object;
    expect(Object.keys(copy)).toEqual(['z', '__proto__', 'a']);
    expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
    expect('evil' in copy).toBe(false);
  });

  it('accepts containers of another realm and objects without a prototype', () => {
    const foreign: unknown = runInNewContext('({ a: [{ b: 1 }] })');
    expect(losslessCopy(foreign)).toEqual({ a: [{ b: 1 }] });
    expect(losslessCopy(Object.assign(Object.create(null), { a: 1 }))).toEqual({ a: 1 });
  });

  it('reads each property once, and passes on what an accessor throws', () => {
    let reads = 0;
    const counted = { get a() { return ++reads; } }; // prettier-ignore
    expect(losslessCopy(counted)).toEqual({ a: 1 });
    const failure = new Error('no');
    const hostile = { get a() { throw failure; } }; // prettier-ignore
    expect(() => losslessCopy(hostile)).toThrow(failure);
  });
});

describe('frozenCopy', () => {
  it('is frozen all the way down, empty containers included', () => {
    const copy = frozenCopy({ a: [{ b: {} }, []] }) as unknown as {
      a: [{ b: object }, unknown[]];
    };
    for (const part of [copy, copy.a, copy.a[0], copy.a[0].b, copy.a[1]]) {
      expect(Object.isFrozen(part)).toBe(true);
    }
  });

  it('leaves what it was given as it was', () => {
    const given = { a: [1] };
    frozenCopy(given);
    expect(Object.isFrozen(given) || Object.isFrozen(given.a)).toBe(false);
  });

  it('refuses what is nested deeper than it is told to accept', () => {
    expect(frozenCopy(nested(10), 10)).toEqual(nested(10));
    expect(() => frozenCopy(nested(11), 10)).toThrow('nested more than 10 deep');
  });
});

describe('isPlainObject', () => {
  it.each([
    [{}, true],
    [Object.create(null), true],
    [runInNewContext('({})'), true],
    [[], false],
    [null, false],
    [new Date(0), false],
    [Object.create({}), false],
    ['text', false],
  ])('case %#', (value, expected) => {
    expect(isPlainObject(value)).toBe(expected);
  });
});

describe('deepFreeze', () => {
  it('freezes below what was frozen already', () => {
    const value = Object.freeze({ a: { b: [{}] } });
    deepFreeze(value);
    expect([value.a, value.a.b, value.a.b[0]].every((part) => Object.isFrozen(part))).toBe(true);
  });

  it('ends with a cycle, and takes an array of any length', () => {
    const cycle: Record<string, unknown> = {};
    cycle['self'] = cycle;
    expect(Object.isFrozen(deepFreeze(cycle))).toBe(true);
    const long = Array.from({ length: 300_000 }, () => ({}));
    expect(Object.isFrozen(deepFreeze(long)[299_999])).toBe(true);
  });
});

describe('copyDecoded', () => {
  it('gives what losslessCopy gives of what was decoded, frozen all the way down', () => {
    const text = '{"list":[1,[],{},{"7":"a","b":null}],"text":"é","__proto__":{"admin":true}}';
    const source = JSON.parse(text) as Json;
    const decoded = unpack(pack(source)) as Json;
    const copy = copyDecoded(decoded);
    expect(copy).toStrictEqual(losslessCopy(source));
    expect(Object.keys(copy as object)).toEqual(Object.keys(source as object));
    const isFrozen = (value: unknown): boolean =>
      typeof value !== 'object' ||
      value === null ||
      (Object.isFrozen(value) && Object.values(value).every(isFrozen));
    expect(isFrozen(copy)).toBe(true);
    expect(Object.isFrozen(decoded)).toBe(false);
  });
});
