import fc from 'fast-check';
import { expect, test } from 'vitest';
import { pack, unpack } from '../../protocol/codec.ts';
import { lookAtPacked } from '../../protocol/packed-json.ts';

const bounds = { depth: 8, nodes: 1_000, heapBytes: 100_000 };
const of = (...bytes: number[]): string | undefined =>
  lookAtPacked(Uint8Array.from(bytes), bounds).problem;

test('lets through whatever our packer makes of JSON, and of absent fields', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 5 }), (value) => {
      const most = { depth: 64, nodes: 100_000, heapBytes: Infinity };
      expect(lookAtPacked(pack(value), most).problem).toBeUndefined();
    }),
  );
  const absent = pack({ there: 1, absent: undefined });
  expect(lookAtPacked(absent, bounds).problem).toBeUndefined();
});

test('refuses what is not JSON before anything decodes it', () => {
  // Binary, an error, a set, a date, a record definition, a reference.
  for (const bytes of [
    [0xc4, 1, 0],
    [0xc7, 1, 0x65, 0x90],
    [0xd4, 0x73, 0],
    [0xd6, 0xff, 0, 0, 0, 0],
    [0xd4, 0x72, 0x40, 0x91, 0xa1, 0x61, 1],
    [0xd6, 0x70, 0, 0, 0, 1],
    [0xc1],
  ]) {
    expect(of(...bytes)).toBe('they hold something beside JSON');
  }
  expect(of(0x81, 1, 2)).toBe('a key is no text');
});

test('refuses bytes that end too early, or too late', () => {
  for (const bytes of [
    [],
    [0x91],
    [0x81, 0xa1],
    [0xdd, 0, 0, 1],
    [0xcb, 0],
    [0xdb, 255, 255, 255, 255],
  ]) {
    expect(of(...bytes)).toBe('they end too early');
  }
  expect(of(1, 1)).toBe('something follows the value');
});

test('refuses what is too deep or holds too many values', () => {
  expect(of(...Array.from({ length: 9 }, () => 0x91), 1)).toBe('they are nested too deeply');
  expect(of(...Array.from({ length: 8 }, () => 0x91), 1)).toBeUndefined();
  expect(of(0xdc, 4, 0, ...Array.from({ length: 1_024 }, () => 1))).toBe(
    'they hold too many values',
  );
});

test('refuses references that multiply: a few hundred bytes that would fill main', () => {
  const name = (n: number): number[] => [0xd6, 0x69, 0, 0, 0, n];
  const reference = (n: number): number[] => [0xd6, 0x70, 0, 0, 0, n];
  const levels = 9;
  const bytes = [0xdc, 0, levels, ...name(0), 0x9a, ...Array.from({ length: 10 }, () => 1)];
  for (let level = 1; level < levels; level++) {
    bytes.push(...name(level), 0x9a);
    for (let copy = 0; copy < 10; copy++) bytes.push(...reference(level - 1));
  }
  expect(() => unpack(Uint8Array.from([...bytes, 1]))).toThrow(TypeError);
});
