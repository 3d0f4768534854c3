/**
 * Looks at packed bytes before they are decoded: what a decoder may do with a few hostile bytes
 * (references that multiply, types that run code of their own, values that take far more memory
 * than bytes) is decided here, by walking them once without building anything.
 */
export interface PackedBounds {
  /** Nesting; the value itself is at 0. */
  readonly depth: number;
  /** Keys, items and values in all. */
  readonly nodes: number;
  /** Bytes of heap that it would take, by the estimate of {@link PackedLook}. */
  readonly heapBytes: number;
}

/** What a look at packed bytes found. */
export interface PackedLook {
  /** Why they are not one packed JSON value within the bounds; absent when they are. */
  readonly problem?: string;
  /** About what the value takes on the heap, as far as was looked. */
  readonly heapBytes: number;
}

/** What a value may take for each of its bytes. */
export const HEAP_PER_BYTE = 16;

/** What a value takes in memory, in bytes, on the heap of a 64-bit process. */
const SLOT = 8;
const NUMBER = 16;
const TEXT = 24;
/** Bytes of a text that count as those of other values do. */
const SHORT_TEXT = 32;
const ARRAY = 40;
const MAP = 56;
const KEY = 24;
/** More of a key that is a number: those are kept in a table of their own. */
const INDEX = 64;

/**
 * Only maps keyed by text, arrays, texts, numbers, booleans, null and the packed form of an
 * absent field are let through.
 */
export function lookAtPacked(bytes: Uint8Array, bounds: PackedBounds): PackedLook {
  const { length } = bytes;
  /** Per open container: values to come, and whether every other one is a key. */
  const left: number[] = [];
  const maps: boolean[] = [];
  let position = 0;
  let nodes = 0;
  let heapBytes = 0;
  const found = (problem: string): PackedLook => ({ problem, heapBytes });
  do {
    if (position >= length) return found('they end too early');
    const lead = bytes[position] as number;
    const top = left.length - 1;
    const isInMap = top >= 0 && (maps[top] as boolean);
    const isKey = isInMap && (left[top] as number) % 2 === 0;
    if (isKey && !isText(lead)) return found('a key is no text');
    // An absent field can only be the value of one.
    if (lead === ABSENT && !isInMap) return found('they hold something beside JSON');
    if (++nodes > bounds.nodes) return found('they hold too many values');
    if (top >= 0) (left[top] as number)--;
    const header = headerOf(lead);
    if (header > 0) {
      if (position + header > length) return found('they end too early');
      const isMap = lead <= 0x8f || lead >= 0xde;
      const size =
        header === 1 ? lead & 0x0f : numberAt(bytes, position + 1, (header - 1) as 2 | 4);
      position += header;
      heapBytes += isMap ? MAP + SLOT : ARRAY + SLOT;
      // Each takes a byte at least: what cannot follow is not counted with.
      if (size > length - position) return found('they end too early');
      if (size > 0) {
        if (left.length >= bounds.depth) return found('they are nested too deeply');
        left.push(isMap ? 2 * size : size);
        maps.push(isMap);
      }
    } else {
      const end = position + lengthOf(bytes, position, lead);
      if (Number.isNaN(end)) return found('they hold something beside JSON');
      if (end > length) return found('they end too early');
      if (isText(lead)) {
        heapBytes += heapOfText(end - position);
        if (isKey) heapBytes += isDigit(bytes[firstOf(position, lead)] ?? 0) ? KEY + INDEX : KEY;
        else heapBytes += SLOT;
      } else heapBytes += lead >= 0xca && lead <= 0xd3 ? NUMBER + SLOT : SLOT;
      position = end;
    }
    if (heapBytes > bounds.heapBytes)
      return found('they take far more memory than bytes: give less, or a text');
    while (left.length > 0 && left[left.length - 1] === 0) {
      left.pop();
      maps.pop();
    }
  } while (left.length > 0);
  return position === length ? { heapBytes } : found('something follows the value');
}

/**
 * A long text is put as high as its bytes allow: it takes less, but what it takes less is nothing
 * that values beside it could have.
 */
function heapOfText(bytes: number): number {
  // The engine has one of it for all.
  if (bytes === 1) return 0;
  const short = Math.min(bytes, SHORT_TEXT);
  return TEXT + 2 * short + HEAP_PER_BYTE * (bytes - short);
}

/** What our own packer writes for a field that is undefined. */
const ABSENT = 0xd4;

const isText = (lead: number): boolean =>
  (lead >= 0xa0 && lead <= 0xbf) || (lead >= 0xd9 && lead <= 0xdb);
/** Where the first letter of a text is. */
const firstOf = (position: number, lead: number): number =>
  position + (lead <= 0xbf ? 1 : lead === 0xd9 ? 2 : lead === 0xda ? 3 : 5);
const isDigit = (byte: number): boolean => byte >= 0x30 && byte <= 0x39;

/** Bytes before the first item of a container; 0 for what is none. */
function headerOf(lead: number): 0 | 1 | 3 | 5 {
  if (lead >= 0x80 && lead <= 0x9f) return 1;
  if (lead === 0xdc || lead === 0xde) return 3;
  return lead === 0xdd || lead === 0xdf ? 5 : 0;
}

/** 0 for bytes that are not there. */
function numberAt(bytes: Uint8Array, position: number, width: 1 | 2 | 4): number {
  let value = 0;
  for (let index = 0; index < width; index++) value = value * 256 + (bytes[position + index] ?? 0);
  return value;
}

/** Bytes of a value that holds no other, its lead included; NaN for what is not JSON. */
function lengthOf(bytes: Uint8Array, position: number, lead: number): number {
  if (lead <= 0x7f || lead >= 0xe0) return 1;
  if (lead >= 0xa0 && lead <= 0xbf) return 1 + (lead & 0x1f);
  switch (lead) {
    case 0xc0:
    case 0xc2:
    case 0xc3:
      return 1;
    case 0xcc:
    case 0xd0:
      return 2;
    case 0xcd:
    case 0xd1:
      return 3;
    case 0xca:
    case 0xce:
    case 0xd2:
      return 5;
    case 0xcb:
    case 0xcf:
    case 0xd3:
      return 9;
    case 0xd9:
      return 2 + numberAt(bytes, position + 1, 1);
    case 0xda:
      return 3 + numberAt(bytes, position + 1, 2);
    case 0xdb:
      return 5 + numberAt(bytes, position + 1, 4);
    case ABSENT:
      // The one extension our own packer writes: an absent field.
      return bytes[position + 1] === 0 && bytes[position + 2] === 0 ? 3 : NaN;
    default:
      return NaN;
  }
}
