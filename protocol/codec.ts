import { Packr } from 'msgpackr/index-no-eval';
import { packedProblem } from './packed-json.ts';

/**
 * Records off: each packed value stands alone, and a reader needs no shared state. Objects are
 * read as maps, so that a key named `__proto__` is a key like any other until we build the object.
 */
const packr = new Packr({
  useRecords: false,
  variableMapSize: true,
  int64AsType: 'number',
  mapsAsObjects: false,
});

/** Nesting a decoded value may have; deeper is refused. */
export const MAX_DEPTH = 64;
/** Keys and items a decoded value may have in all. */
export const MAX_NODES = 200_000;

/**
 * Bytes of a value, in a buffer of their own: it can be transferred, and nothing else of the
 * packer's memory goes with it.
 */
export function pack(value: unknown): Uint8Array {
  return Uint8Array.from(packr.pack(value));
}

/**
 * The value of some bytes. Objects come without a prototype, so that no key of theirs can be
 * mistaken for an inherited one.
 *
 * @throws {TypeError} when the bytes are no packed JSON, or JSON beyond the bounds.
 */
export function unpack(bytes: Uint8Array): unknown {
  const problem = packedProblem(bytes, { depth: MAX_DEPTH, nodes: MAX_NODES });
  if (problem !== undefined) throw new TypeError(`The bytes are no packed value: ${problem}.`);
  let value: unknown;
  try {
    value = packr.unpack(bytes);
  } catch (error) {
    throw new TypeError('The bytes are no packed value.', { cause: error });
  }
  return plain(value);
}

/** Maps become objects without a prototype; an absent optional field stays absent. */
function plain(value: unknown): unknown {
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw new TypeError('The value holds a number that is not finite.');
  }
  if (Array.isArray(value)) return value.map(plain);
  if (!(value instanceof Map)) return value;
  const copy = Object.create(null) as Record<string, unknown>;
  for (const [key, item] of value as Map<string, unknown>) {
    if (item !== undefined) copy[key] = plain(item);
  }
  return copy;
}
