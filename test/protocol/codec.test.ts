import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_DEPTH, MAX_NODES, pack, unpack, unpackFrame } from '../../protocol/codec.ts';
import type { Json } from '../../protocol/json.ts';

function nested(depth: number): Json {
  let value: Json = 1;
  for (let level = 0; level < depth; level++) value = [value];
  return value;
}
const many = (length: number, item: Json): Json[] => Array.from({ length }, () => item);
const bytes = (...values: readonly number[]): Uint8Array => Uint8Array.from(values);

describe('pack', () => {
  it('gives bytes in a buffer of their own', () => {
    const packed = pack({ text: 'secret' });
    expect(packed.constructor).toBe(Uint8Array);
    expect(packed.buffer.byteLength).toBe(packed.byteLength);
    pack('something else');
    expect(unpack(packed)).toEqual({ text: 'secret' });
  });

  it('leaves out what is undefined', () => {
    expect(Object.keys(unpack(pack({ a: undefined, b: 1 })) as object)).toEqual(['b']);
  });
});

describe('unpack', () => {
  it('gives back every JSON value', () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false }), (value) => {
        const text = JSON.stringify(value);
        // A lone half of a pair has no UTF-8; msgpackr writes U+FFFD for it, as JSON readers do.
        fc.pre(!/\\ud[89a-f]/i.test(text));
        expect(JSON.stringify(unpack(pack(value)))).toBe(text);
      }),
    );
  });

  it('keeps numbers of every size', () => {
    const numbers = [
      0,
      -1,
      64,
      255,
      2 ** 31,
      2 ** 32,
      2 ** 40,
      Number.MAX_SAFE_INTEGER,
      0.1,
      1e300,
    ];
    expect(unpack(pack(numbers))).toEqual(numbers);
  });

  it('gives objects without a prototype, with `__proto__` a key like any other', () => {
    const value = JSON.parse('{"__proto__":{"admin":true},"constructor":1}') as Json;
    const copy = unpack(pack(value)) as Record<string, unknown>;
    expect(Object.getPrototypeOf(copy)).toBeNull();
    expect(Object.keys(copy)).toEqual(['__proto__', 'constructor']);
    expect(copy['admin']).toBeUndefined();
    expect(({} as Record<string, unknown>)['admin']).toBeUndefined();
    expect(JSON.stringify(copy)).toBe(JSON.stringify(value));
  });

  it('refuses what is nested too deeply', () => {
    expect(unpack(pack(nested(MAX_DEPTH)))).toEqual(nested(MAX_DEPTH));
    expect(() => unpack(pack(nested(MAX_DEPTH + 1)))).toThrow(/too deep/);
  });

  it('refuses what has too many keys and items', () => {
    const many = Array.from({ length: MAX_NODES + 1 }, () => 0);
    expect(() => unpack(pack(many))).toThrow(/too many/);
    expect(() => unpack(pack(many.map(() => 'two')))).toThrow(/too many/);
  });

  it.each<[string, Json]>([
    ['objects without keys', many(100_000, {})],
    ['lists without items', many(100_000, [])],
    ['objects that each have a number for a key', many(20_000, { 1000: null })],
    ['such objects with keys of their own', many(20_000, { 1000: 1, 7: 2, 30: 3 })],
  ])('refuses %s, which would take far more memory than bytes', (_, value) => {
    expect(() => unpack(pack(value))).toThrow(/far more memory/);
  });

  it.each<[string, Json]>([
    ['some objects without keys', many(10_000, {})],
    ['some lists without items', many(15_000, [])],
    ['rows', many(5_000, { id: 17, name: 'somebody', tags: ['a', 'b'], at: 1.5, open: true })],
    ['an object by numbers', Object.fromEntries(many(2_000, 1).map((_, at) => [at, [at]]))],
    ['objects by numbers', many(500, { 12: 'a', 1000: 'b', 4_999: 'c' })],
  ])('takes %s', (_, value) => {
    expect(unpack(pack(value))).toEqual(value);
  });

  it.each<[string, Json]>([
    ['a long text', ['x'.repeat(900_000), many(30_000, {})]],
    ['a long key', { ['x'.repeat(900_000)]: many(30_000, {}) }],
  ])('lets %s make no room for objects beside it', (_, value) => {
    expect(() => unpack(pack(value))).toThrow(/far more memory/);
  });

  it('takes a long text beside objects that pass without it', () => {
    const value = ['x'.repeat(900_000), many(15_000, {})];
    expect(unpack(pack(value))).toEqual(value);
  });

  it('has no negative zero', () => {
    for (const zero of [bytes(0xca, 0x80, 0, 0, 0), bytes(0xcb, 0x80, 0, 0, 0, 0, 0, 0, 0)]) {
      expect(unpack(zero)).toBe(0);
    }
  });

  it('gives a key that is a number no room for the numbers below it', () => {
    const bytes = pack(many(4_000, { 1000: null }));
    const read = (): unknown => unpackFrame(bytes, Infinity);
    read();
    const before = process.memoryUsage().heapTotal;
    const kept = Array.from({ length: 8 }, read);
    // 32 000 of them; a list of a thousand for each would be 256 MB.
    expect(process.memoryUsage().heapTotal - before).toBeLessThan(100_000_000);
    expect(kept).toHaveLength(8);
  });

  it('reads texts of every length and alphabet', () => {
    for (const letter of ['a', 'é', '語', '😀', '\uFEFF']) {
      for (const size of [0, 1, 7, 8, 23, 24, 25, 31, 32, 255, 256, 65_535, 65_536]) {
        const value = { [letter.repeat(size)]: letter.repeat(size) };
        expect(unpack(pack(value))).toEqual(value);
      }
    }
  });

  it.each<[string, Uint8Array]>([
    ['no bytes', bytes()],
    ['bytes that go on after the value', bytes(1, 2)],
    ['a text cut short', bytes(0xdb, 0xff, 0xff, 0xff, 0xff, 0x61)],
    ['an array that says it has four thousand million items', bytes(0xdd, 0xff, 0xff, 0xff, 0xff)],
    ['an object that says it has as many keys', bytes(0xdf, 0xff, 0xff, 0xff, 0xff)],
    ['a million brackets', new Uint8Array(1_000_000).fill(0x91)],
    ['a key that is a number', bytes(0x81, 0x01, 0x02)],
    ['a key that is an object', bytes(0x81, 0x81, 0xa1, 0x61, 0x01, 0x02)],
    ['binary data', bytes(0xc4, 0x01, 0x00)],
    ['a date', bytes(0xd6, 0xff, 0, 0, 0, 0)],
    ['an error', bytes(0xd4, 0x65, 0, 0x93, 0xa1, 0x61, 0xa1, 0x62, 0xa1, 0x63)],
    ['a regular expression', bytes(0xd4, 0x78, 0, 0x92, 0xa1, 0x61, 0xa1, 0x67)],
    ['a set', bytes(0xd4, 0x73, 0, 0x91, 0x01)],
    ['a record', bytes(0xd4, 0x72, 0x40, 0x91, 0xa1, 0x61, 0x01)],
    ['a pointer', bytes(0xd6, 0x70, 0, 0, 0, 0)],
    ['a number that is none', pack(Number.NaN)],
    ['an infinite number', pack(Number.POSITIVE_INFINITY)],
    ['undefined', pack(undefined)],
    ['an item that is undefined', pack([undefined])],
  ])('refuses %s', (_, forged) => {
    expect(() => unpack(forged)).toThrow(TypeError);
  });

  it('is not changed by a record that an earlier message defined', () => {
    const defines = bytes(0x92, 0xd4, 0x72, 0x40, 0x91, 0xa1, 0x61, 0x01, 0x40, 0x07);
    expect(() => unpack(defines)).toThrow(TypeError);
    expect(unpack(pack([64, 65, 127]))).toEqual([64, 65, 127]);
  });

  it('does nothing but refuse, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 64 }), (forged) => {
        try {
          const value = unpack(forged);
          expect(JSON.stringify(value)).toBeTypeOf('string');
        } catch (error) {
          expect(error).toBeInstanceOf(TypeError);
        }
      }),
      { numRuns: 2_000 },
    );
  });
});
