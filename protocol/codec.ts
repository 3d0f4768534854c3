import { Packr } from 'msgpackr/index-no-eval';

/** Records off: each packed value stands alone, and a reader needs no shared state. */
const packr = new Packr({ useRecords: false, variableMapSize: true, int64AsType: 'number' });

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
 * @throws {TypeError} when the bytes are no packed value, or one too deep or with too many keys.
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

/** Rebuild as JSON data with a bound on depth and size; anything that is not JSON is refused. */
function plain(value: unknown): unknown {
  let nodes = 0;
  const walk = (current: unknown, depth: number): unknown => {
    if (++nodes > MAX_NODES) throw new TypeError('The value has too many keys.');
    if (depth > MAX_DEPTH) throw new TypeError('The value is nested too deeply.');
    switch (typeof current) {
      case 'string':
      case 'boolean':
      case 'number':
        return current;
      case 'object':
        break;
      default:
        throw new TypeError(`The value holds a ${typeof current}.`);
    }
    if (current === null) return null;
    if (Array.isArray(current)) return current.map((item) => walk(item, depth + 1));
    const prototype: unknown = Object.getPrototypeOf(current);
    if (prototype !== Object.prototype && prototype !== null) {
      throw new TypeError('The value holds something that is not JSON.');
    }
    const copy = Object.create(null) as Record<string, unknown>;
    for (const [key, item] of Object.entries(current)) {
      // An absent optional field of the sender arrives as undefined; it stays absent.
      if (item !== undefined) copy[key] = walk(item, depth + 1);
    }
    return copy;
  };
  return walk(value, 0);
}
