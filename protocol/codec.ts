import { Packr } from 'msgpackr/index-no-eval';
import { HEAP_PER_BYTE, lookAtPacked } from './packed-json.ts';
import { readPacked } from './read-packed.ts';

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

/** Memory that the value of any bytes may take, and more of it by so many times their number. */
const HEAP_BYTES = 1024 * 1024;

/** Memory that the value of so many packed bytes may take, in bytes. */
export function mostHeapBytes(byteLength: number): number {
  return HEAP_BYTES + HEAP_PER_BYTE * byteLength;
}

/**
 * The value of some bytes. Objects come without a prototype, so that no key of theirs can be
 * mistaken for an inherited one. Nothing is built of bytes that are beyond a bound.
 *
 * @throws {TypeError} when the bytes are no packed JSON, or JSON beyond the bounds.
 */
export function unpack(bytes: Uint8Array): unknown {
  return unpackFrame(bytes).value;
}

/**
 * As `unpack`, with about what the value takes in memory, in bytes.
 * @param mostHeap how much that may be
 */
export function unpackFrame(
  bytes: Uint8Array,
  mostHeap: number = mostHeapBytes(bytes.byteLength),
): { readonly value: unknown; readonly heapBytes: number } {
  const bounds = { depth: MAX_DEPTH, nodes: MAX_NODES, heapBytes: mostHeap };
  const { problem, heapBytes } = lookAtPacked(bytes, bounds);
  if (problem !== undefined) throw new TypeError(`The bytes are no packed value: ${problem}.`);
  return { value: readPacked(bytes), heapBytes };
}
