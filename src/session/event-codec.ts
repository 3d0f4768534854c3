import type { SessionEvent, SessionHeader } from '../../protocol/session-events.ts';
import type { Checkpoint, StoreAppend } from './store.ts';
import { pack, unpackFrame } from '../../protocol/codec.ts';
import { StoreError } from '../../protocol/errors.ts';
import { isPlainObject } from '../../protocol/json.ts';
import { isSessionEventType } from './event-shape.ts';
import { checkedHeader } from './header.ts';

export interface EncodedEntry {
  readonly entry: StoreAppend;
  readonly header: Uint8Array | undefined;
  /** How many events have no body here: the first ones, which are copied. */
  readonly copied: number;
  readonly bodies: readonly Uint8Array[];
  /** JSON text. Absent when there is none, or it cannot be written down: it is not worth the events. */
  readonly checkpoint: string | undefined;
}

/** No packed map begins with it, and every JSON object does. */
const JSON_OBJECT = 0x7b;
const MAX_PACKED_DEPTH = 60;
const MAX_PACKED_NODES = 100_000;

/**
 * The bytes of one event, without its number. Packed, unless packing would change the event or
 * unpacking would refuse it: then as JSON text. What is kept is read back exactly, half a
 * surrogate pair at the end of a streamed chunk included.
 */
function encodeEvent({ seq: _, ...event }: SessionEvent): Uint8Array {
  return encode(event);
}

/**
 * The rows of one entry of a batch, but for its first `copied` events.
 * @throws {StoreError} `STORE_CORRUPT`
 */
export function encodeEntry(entry: StoreAppend, copied = 0): EncodedEntry {
  try {
    return {
      entry,
      header: entry.header && encode(entry.header),
      copied,
      bodies: entry.events.slice(copied).map((event) => encodeEvent(event)),
      checkpoint: entry.checkpoint && encodeRows(entry.checkpoint),
    };
  } catch (error) {
    throw new StoreError('STORE_CORRUPT', `Session \`${entry.id}\` cannot be packed.`, {
      cause: error,
    });
  }
}

/** @throws {StoreError} `STORE_CORRUPT`, or `STORE_FORMAT_UNSUPPORTED` for an unknown type. */
export function decodeEvent(seq: number, body: Uint8Array): SessionEvent {
  const { type, time, data, ...rest } = decode(body, `Stored event ${seq}`);
  if (!isSessionEventType(type)) {
    throw new StoreError(
      'STORE_FORMAT_UNSUPPORTED',
      `Stored event ${seq} is of the unknown type \`${String(type)}\`; a newer version wrote it.`,
    );
  }
  return { type, seq, time, data, ...rest } as SessionEvent;
}

/** @throws {StoreError} `STORE_CORRUPT`, or `STORE_FORMAT_UNSUPPORTED` for another version. */
export function decodeHeader(id: string, body: Uint8Array): SessionHeader {
  const header = decode(body, `The stored header of session \`${id}\``);
  if (header['version'] !== 0) {
    throw new StoreError(
      'STORE_FORMAT_UNSUPPORTED',
      `Session \`${id}\` is stored as version ${String(header['version'])}, and 0 is known.`,
    );
  }
  try {
    return checkedHeader(header as unknown as SessionHeader);
  } catch (error) {
    throw new StoreError('STORE_CORRUPT', `The stored header of session \`${id}\` is damaged.`, {
      cause: error,
    });
  }
}

/** `undefined` for what this version cannot make anything of: the log is still there. */
export function decodeCheckpoint(seq: number, body: string): Checkpoint | undefined {
  try {
    const rows: unknown = JSON.parse(body);
    return isPlainObject(rows) ? { seq, rows: rows as Checkpoint['rows'] } : undefined;
  } catch {
    // Damaged.
    return undefined;
  }
}

/** The origin of a header that could not be read when the file became one of this version. */
export const UNREADABLE = 'unreadable';

/** What a packed header says of itself, even one that cannot be read as a whole. */
export function headerField(
  body: Uint8Array,
  field: 'parentSession' | 'origin' | 'seedLength',
): string | number | null {
  try {
    const header = decode(body, 'A stored header');
    if (field === 'origin') return checkedHeader(header as unknown as SessionHeader).origin ?? null;
    const value = header[field];
    return typeof value === (field === 'seedLength' ? 'number' : 'string')
      ? (value as string | number)
      : null;
  } catch {
    // Damaged, and nobody's child if that can be read neither.
    return field === 'origin' ? UNREADABLE : null;
  }
}

function encodeRows({ rows }: Checkpoint): string | undefined {
  try {
    return JSON.stringify(rows);
  } catch {
    // Nested deeper than the stack.
    return undefined;
  }
}

function encode(value: object): Uint8Array {
  if (survivesPacking(value)) return pack(value);
  return new TextEncoder().encode(JSON.stringify(value));
}

function decode(body: Uint8Array, what: string): Record<string, unknown> {
  let value: unknown;
  try {
    // Written here: however much it takes, it was here before.
    value =
      body[0] === JSON_OBJECT
        ? JSON.parse(new TextDecoder().decode(body))
        : unpackFrame(body, Infinity).value;
  } catch (error) {
    throw new StoreError('STORE_CORRUPT', `${what} cannot be read.`, { cause: error });
  }
  if (!isPlainObject(value)) throw new StoreError('STORE_CORRUPT', `${what} is no object.`);
  return value;
}

function survivesPacking(value: unknown): boolean {
  let nodes = 0;
  const walk = (current: unknown, depth: number): boolean => {
    if (++nodes > MAX_PACKED_NODES || depth > MAX_PACKED_DEPTH) return false;
    if (typeof current === 'string') return isWellFormed(current);
    if (typeof current !== 'object' || current === null) return true;
    if (Array.isArray(current)) return current.every((item) => walk(item, depth + 1));
    for (const key of Object.keys(current)) {
      if (key === '__proto__' || !isWellFormed(key)) return false;
      if (!walk((current as Record<string, unknown>)[key], depth + 1)) return false;
    }
    return true;
  };
  return walk(value, 0);
}

/** In every Node this runs on, and not yet among the types of our language level. */
function isWellFormed(text: string): boolean {
  return (text as unknown as { isWellFormed(): boolean }).isWellFormed();
}
