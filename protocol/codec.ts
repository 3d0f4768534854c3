import { Packr } from 'msgpackr/index-no-eval';

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
  let value: unknown;
  try {
    value = packr.unpack(bytes);
  } catch (error) {
    throw new TypeError('The bytes are no packed value.', { cause: error });
  }
  return plain(value);
}

/** Rebuild as JSON data within the bounds; anything that is not JSON is refused. */
function plain(value: unknown): unknown {
  let nodes = 0;
  const walk = (current: unknown, depth: number): unknown => {
    if (++nodes > MAX_NODES) throw new TypeError('The value has too many keys.');
    if (depth > MAX_DEPTH) throw new TypeError('The value is nested too deeply.');
    if (typeof current === 'string' || typeof current === 'boolean') return current;
    if (current === null || (typeof current === 'number' && Number.isFinite(current))) {
      return current;
    }
    if (Array.isArray(current)) return current.map((item) => walk(item, depth + 1));
    if (!(current instanceof Map)) throw new TypeError('The value holds something beside JSON.');
    const copy = Object.create(null) as Record<string, unknown>;
    for (const [key, item] of current as Map<unknown, unknown>) {
      if (typeof key !== 'string') throw new TypeError('The value has a key that is no text.');
      // An absent optional field of the sender arrives as undefined; it stays absent.
      if (item !== undefined) copy[key] = walk(item, depth + 1);
    }
    return copy;
  };
  return walk(value, 0);
}
