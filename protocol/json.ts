/** A value that JSON can carry without loss. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

/** A JSON object. */
export type JsonObject = { readonly [key: string]: Json };

/** True for `{}`-like objects of any realm and for objects without a prototype. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null || prototype === Object.prototype) return true;
  // Another realm's Object.prototype is recognised by being the root of its chain.
  return (
    Object.getPrototypeOf(prototype) === null &&
    Object.prototype.hasOwnProperty.call(prototype, 'isPrototypeOf')
  );
}

/**
 * Copy a value that JSON can carry without loss, reading each property once.
 * `__proto__` as an own key stays data. The walk keeps its own stack, so depth is no limit.
 *
 * @throws {TypeError} naming the place of the first value that JSON would lose: `undefined`,
 *   a function, symbol or bigint, NaN, an infinity or -0, a cycle, a sparse array, a class
 *   instance; or for more values than `budget` has left. What an accessor throws is passed on.
 */
export function losslessCopy(value: unknown, budget: Budget = { left: Infinity }): Json {
  return copyJson(value, false, Infinity, budget);
}

/**
 * `losslessCopy`, frozen all the way down in the same pass.
 *
 * @throws {TypeError} as `losslessCopy` does, and for a value nested deeper than `maxDepth`.
 */
export function frozenCopy(
  value: unknown,
  maxDepth: number = Infinity,
  budget: Budget = { left: Infinity },
): Json {
  return copyJson(value, true, maxDepth, budget);
}

/**
 * A frozen copy, of objects like literals, of a value that our own decoder built: a tree of JSON,
 * as deep as frames are. Nothing of it is looked at again.
 */
export function copyDecoded(value: Json): Json {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return Object.freeze(value.map(copyDecoded));
  const source = value as JsonObject;
  const keys = Object.keys(source);
  // Keys that are numbers come first.
  const isTable = keys.length > 0 && isIndex(keys[0] as string);
  const copy = emptyObject('literal', isTable) as Record<string, Json>;
  for (const key of keys) setOwn(copy, key, copyDecoded(source[key] as Json));
  return Object.freeze(copy);
}

/**
 * How many more values may be copied; copying spends it. A part that many others share is copied
 * for each of them, so a few objects can stand for more values than there is memory.
 */
export interface Budget {
  left: number;
}

/** True for a key that objects keep as the index of an item. */
export function isIndex(key: string): boolean {
  const first = key.charCodeAt(0);
  return first >= 0x30 && first <= 0x39 && /^(?:0|[1-9]\d{0,9})$/.test(key);
}

/** Beyond every index that a list of items would be made for. */
const BEYOND = 2 ** 32 - 3;

/**
 * An object without keys, for one that may get keys that are numbers: `isTable`. One such key of
 * a thousand makes other objects reserve a list of a thousand items and more, so that a few
 * bytes of JSON take many KiB; this one keeps them as they come.
 *
 * @param prototype `null`, or that of a literal
 */
export function emptyObject(
  prototype: null | 'literal',
  isTable: boolean,
): Record<string, unknown> {
  const made: Record<string, unknown> = {};
  // Not `Object.create(null)`, which is three times as large.
  if (prototype === null) Object.setPrototypeOf(made, null);
  if (isTable) {
    made[BEYOND] = true;
    delete made[BEYOND];
  }
  return made;
}

/** One container that is being copied. The chain of parents is the place we are at. */
interface Frame {
  readonly source: Record<string, unknown> | readonly unknown[];
  readonly copy: Record<string, Json> | Json[];
  /** Absent for an array. */
  readonly keys: readonly string[] | undefined;
  readonly size: number;
  readonly depth: number;
  readonly parent: Frame | undefined;
  next: number;
}

/** From this depth on a set finds cycles; above it, walking up the chain is faster. */
const DEEP = 32;

function copyJson(value: unknown, freeze: boolean, maxDepth: number, budget: Budget): Json {
  let frame: Frame | undefined;
  let open: Set<object> | undefined;
  let current = value;
  for (;;) {
    let copied: Json;
    if (current === null || typeof current === 'string' || typeof current === 'boolean') {
      copied = current;
    } else if (typeof current === 'number') {
      if (!Number.isFinite(current)) refuse(frame, 'not a finite number');
      if (current === 0 && Object.is(current, -0)) refuse(frame, 'negative zero');
      copied = current;
    } else if (typeof current === 'object') {
      if (open === undefined ? isOpen(frame, current) : open.has(current)) {
        refuse(frame, 'part of a cycle');
      }
      const inner = enter(current, frame);
      if (inner.depth > maxDepth) refuse(frame, `nested more than ${maxDepth} deep`);
      if ((budget.left -= inner.size) < 0) refuse(frame, 'part of more values than can be taken');
      if (inner.size > 0) {
        if (open !== undefined) open.add(current);
        else if (inner.depth === DEEP) open = sources(inner);
        frame = inner;
        current = read(inner);
        continue;
      }
      copied = freeze ? Object.freeze(inner.copy) : inner.copy;
    } else {
      return refuse(frame, current === undefined ? 'undefined' : `a ${typeof current}`);
    }
    // Put it in its place; leave every container that is complete with it.
    for (;;) {
      if (frame === undefined) return copied;
      put(frame, copied);
      if (++frame.next < frame.size) {
        current = read(frame);
        break;
      }
      if (freeze) Object.freeze(frame.copy);
      open?.delete(frame.source);
      copied = frame.copy;
      frame = frame.parent;
    }
  }
}

function enter(source: object, parent: Frame | undefined): Frame {
  const depth = parent === undefined ? 1 : parent.depth + 1;
  if (Array.isArray(source)) {
    const size = source.length;
    if (Reflect.ownKeys(source).length !== size + 1) {
      refuse(parent, 'a sparse array or one with extra keys');
    }
    return { source, copy: [], keys: undefined, size, depth, parent, next: 0 };
  }
  if (!isPlainObject(source)) return refuse(parent, `a ${describe(source)}`);
  const keys = Reflect.ownKeys(source);
  for (const key of keys) {
    if (typeof key === 'symbol') return refuse(parent, 'keyed by a symbol', String(key));
    if (!Object.prototype.propertyIsEnumerable.call(source, key)) {
      refuse(parent, 'not enumerable', key);
    }
  }
  const names = keys as string[];
  // Keys that are numbers come first.
  const copy = emptyObject('literal', names.length > 0 && isIndex(names[0] as string)) as Record<
    string,
    Json
  >;
  return { source, copy, keys: names, size: names.length, depth, parent, next: 0 };
}

function read(frame: Frame): unknown {
  const { source, keys, next } = frame;
  if (keys !== undefined) return (source as Record<string, unknown>)[keys[next] as string];
  if (!Object.prototype.hasOwnProperty.call(source, next)) refuse(frame.parent, 'a sparse array');
  return (source as readonly unknown[])[next];
}

function put(frame: Frame, value: Json): void {
  if (frame.keys === undefined) {
    (frame.copy as Json[]).push(value);
    return;
  }
  setOwn(frame.copy as Record<string, Json>, frame.keys[frame.next] as string, value);
}

function setOwn(object: Record<string, Json>, key: string, value: Json): void {
  if (key !== '__proto__') {
    object[key] = value;
    return;
  }
  Object.defineProperty(object, key, {
    value,
    enumerable: true,
    configurable: true,
    writable: true,
  });
}

function isOpen(frame: Frame | undefined, source: object): boolean {
  for (let up = frame; up !== undefined; up = up.parent) if (up.source === source) return true;
  return false;
}

function sources(frame: Frame): Set<object> {
  const found = new Set<object>();
  for (let up: Frame | undefined = frame; up !== undefined; up = up.parent) found.add(up.source);
  return found;
}

/** `frame` is the container that holds what is refused; its `next` is the place. */
function refuse(frame: Frame | undefined, what: string, key?: string): never {
  const path: (string | number)[] = key === undefined ? [] : [key];
  for (let up = frame; up !== undefined; up = up.parent) {
    path.unshift(up.keys === undefined ? up.next : (up.keys[up.next] as string));
  }
  const place = path.length === 0 ? 'the value' : `"${path.join('.')}"`;
  throw new TypeError(`Not losslessly JSON: ${place} is ${what}.`);
}

function describe(value: object): string {
  const name: unknown = (value as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof name === 'string' && name !== '' ? `${name} instance` : 'class instance';
}

/**
 * Freeze a JSON value all the way down and return it, also below what was frozen already.
 * Iterative: depth is no limit.
 */
export function deepFreeze<T>(value: T): T {
  const seen = new Set<object>();
  const tasks: object[] = [];
  const visit = (next: unknown): void => {
    if (typeof next !== 'object' || next === null || seen.has(next)) return;
    seen.add(next);
    tasks.push(next);
  };
  visit(value);
  for (let next = tasks.pop(); next !== undefined; next = tasks.pop()) {
    Object.freeze(next);
    for (const inner of Object.values(next)) visit(inner);
  }
  return value;
}
