/**
 * Looks at packed bytes before they are decoded: what a decoder may do with a few hostile bytes
 * (references that multiply, types that run code of their own) is decided here, by walking
 * them once without building anything.
 */
export interface PackedBounds {
  /** Nesting; the value itself is at 0. */
  readonly depth: number;
  /** Keys, items and values in all. */
  readonly nodes: number;
}

/**
 * Why these bytes are not one packed JSON value within the bounds, or `undefined` when they
 * are. Only maps keyed by text, arrays, texts, numbers, booleans, null and the packed form of an
 * absent field are let through.
 */
export function packedProblem(bytes: Uint8Array, bounds: PackedBounds): string | undefined {
  /** Per open container: values to come, and whether every other one is a key. */
  const open: { left: number; readonly isMap: boolean }[] = [];
  let position = 0;
  let nodes = 0;
  const size = (width: 1 | 2 | 4): number => {
    let value = 0;
    for (let index = 1; index <= width; index++)
      value = value * 256 + (bytes[position + index] ?? 0);
    return value;
  };
  do {
    const lead = bytes[position];
    if (lead === undefined) return 'they end too early';
    const top = open.at(-1);
    const isKey = top !== undefined && top.isMap && top.left % 2 === 0;
    if (isKey && !isText(lead)) return 'a key is no text';
    // An absent field can only be the value of one.
    if (lead === ABSENT && top?.isMap !== true) return 'they hold something beside JSON';
    if (++nodes > bounds.nodes) return 'they hold too many values';
    if (top !== undefined) top.left--;
    const container = containerOf(lead, size);
    if (container === undefined) {
      const length = lengthOf(bytes, position, lead, size);
      if (length === undefined) return 'they hold something beside JSON';
      position += length;
    } else {
      position += container.header;
      if (container.left > 0) {
        if (open.length >= bounds.depth) return 'they are nested too deeply';
        open.push({ left: container.left, isMap: container.isMap });
      }
    }
    if (position > bytes.length) return 'they end too early';
    while (open.at(-1)?.left === 0) open.pop();
  } while (open.length > 0);
  return position === bytes.length ? undefined : 'something follows the value';
}

/** What our own packer writes for a field that is undefined. */
const ABSENT = 0xd4;

const isText = (lead: number): boolean =>
  (lead >= 0xa0 && lead <= 0xbf) || (lead >= 0xd9 && lead <= 0xdb);

function containerOf(
  lead: number,
  size: (width: 2 | 4) => number,
): { header: number; left: number; isMap: boolean } | undefined {
  if (lead >= 0x80 && lead <= 0x8f) return { header: 1, left: 2 * (lead & 0x0f), isMap: true };
  if (lead >= 0x90 && lead <= 0x9f) return { header: 1, left: lead & 0x0f, isMap: false };
  switch (lead) {
    case 0xdc:
      return { header: 3, left: size(2), isMap: false };
    case 0xdd:
      return { header: 5, left: size(4), isMap: false };
    case 0xde:
      return { header: 3, left: 2 * size(2), isMap: true };
    case 0xdf:
      return { header: 5, left: 2 * size(4), isMap: true };
    default:
      return undefined;
  }
}

/** Bytes of a value that holds no other, its lead included; `undefined` for what is not JSON. */
function lengthOf(
  bytes: Uint8Array,
  position: number,
  lead: number,
  size: (width: 1 | 2 | 4) => number,
): number | undefined {
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
      return 2 + size(1);
    case 0xda:
      return 3 + size(2);
    case 0xdb:
      return 5 + size(4);
    case ABSENT:
      // The one extension our own packer writes: an absent field.
      return bytes[position + 1] === 0 && bytes[position + 2] === 0 ? 3 : undefined;
    default:
      return undefined;
  }
}
