/**
 * Builds the value of packed bytes that were looked at before: what {@link lookAtPacked} lets
 * through, and nothing else, is read here. Straight into objects without a prototype: no key of
 * theirs can be mistaken for an inherited one, and one named `__proto__` is a key like any other.
 */
import { emptyObject, isIndex } from './json.ts';

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
/** Up to here a loop is faster than the decoder. */
const SHORT = 24;

/** @throws {TypeError} for a number that is not finite. */
export function readPacked(bytes: Uint8Array): unknown {
  return new Reader(bytes).value();
}

/** Stands for a field that its packer left out. */
const LEFT_OUT = Symbol('left out');

class Reader {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  value(): unknown {
    const view = this.#view;
    const lead = this.#bytes[this.#at++] as number;
    if (lead <= 0x7f) return lead;
    if (lead >= 0xe0) return lead - 0x100;
    if (lead <= 0x8f) return this.#map(lead & 0x0f);
    if (lead <= 0x9f) return this.#list(lead & 0x0f);
    if (lead <= 0xbf) return this.#text(lead & 0x1f);
    switch (lead) {
      case 0xc0:
        return null;
      case 0xc2:
        return false;
      case 0xc3:
        return true;
      case 0xca:
        return finite(view.getFloat32(this.#skip(4)));
      case 0xcb:
        return finite(view.getFloat64(this.#skip(8)));
      case 0xcc:
        return view.getUint8(this.#skip(1));
      case 0xcd:
        return view.getUint16(this.#skip(2));
      case 0xce:
        return view.getUint32(this.#skip(4));
      case 0xcf:
        return view.getUint32(this.#skip(4)) * 2 ** 32 + view.getUint32(this.#skip(4));
      case 0xd0:
        return view.getInt8(this.#skip(1));
      case 0xd1:
        return view.getInt16(this.#skip(2));
      case 0xd2:
        return view.getInt32(this.#skip(4));
      case 0xd3:
        return view.getInt32(this.#skip(4)) * 2 ** 32 + view.getUint32(this.#skip(4));
      case 0xd9:
        return this.#text(view.getUint8(this.#skip(1)));
      case 0xda:
        return this.#text(view.getUint16(this.#skip(2)));
      case 0xdb:
        return this.#text(view.getUint32(this.#skip(4)));
      case 0xdc:
        return this.#list(view.getUint16(this.#skip(2)));
      case 0xdd:
        return this.#list(view.getUint32(this.#skip(4)));
      case 0xde:
        return this.#map(view.getUint16(this.#skip(2)));
      case 0xdf:
        return this.#map(view.getUint32(this.#skip(4)));
      default:
        // Two bytes more: the look lets no other extension through.
        this.#skip(2);
        return LEFT_OUT;
    }
  }

  /** Where it was; `width` bytes further on now. */
  #skip(width: number): number {
    const at = this.#at;
    this.#at += width;
    return at;
  }

  #list(size: number): unknown[] {
    const list = Array.from<unknown>({ length: size });
    for (let index = 0; index < size; index++) list[index] = this.value();
    return list;
  }

  #map(size: number): Record<string, unknown> {
    let map = emptyObject(null, false);
    let isTable = false;
    for (let left = size; left > 0; left--) {
      const key = this.value() as string;
      const value = this.value();
      if (value === LEFT_OUT) continue;
      if (!isTable && isIndex(key)) {
        isTable = true;
        map = Object.assign(emptyObject(null, true), map);
      }
      map[key] = value;
    }
    return map;
  }

  #text(size: number): string {
    const bytes = this.#bytes;
    const from = this.#skip(size);
    if (size <= SHORT) {
      let text = '';
      let at = from;
      for (; at < from + size; at++) {
        const byte = bytes[at] as number;
        if (byte > 0x7f) break;
        text += String.fromCharCode(byte);
      }
      if (at === from + size) return text;
    }
    return decoder.decode(bytes.subarray(from, from + size));
  }
}

function finite(value: number): number {
  // JSON has no negative zero.
  if (Number.isFinite(value)) return value + 0;
  throw new TypeError('The value holds a number that is not finite.');
}
