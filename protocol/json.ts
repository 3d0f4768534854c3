/** A value that JSON can carry without loss. */
export type Json =
  | null
  | boolean
  | number
  | string
  | readonly Json[]
  | { readonly [key: string]: Json };

export type JsonObject = { readonly [key: string]: Json };

type Path = readonly (string | number)[];

const at = (path: Path): string => (path.length === 0 ? 'the value' : `"${path.join('.')}"`);

/** True for `{}`-like objects of any realm and for objects without a prototype. */
export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null) return true;
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
 *   instance, an accessor that throws.
 */
export function losslessCopy(value: unknown): Json {
  const root: { result?: Json } = {};
  type Task =
    | { kind: 'copy'; value: unknown; path: Path; put: (copy: Json) => void }
    | { kind: 'leave'; value: object };
  const open = new Set<object>();
  const tasks: Task[] = [{ kind: 'copy', value, path: [], put: (copy) => (root.result = copy) }];
  const refuse = (path: Path, what: string): never => {
    throw new TypeError(`Not losslessly JSON: ${at(path)} is ${what}.`);
  };
  for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
    if (task.kind === 'leave') {
      open.delete(task.value);
      continue;
    }
    const { value: current, path, put } = task;
    if (current === null || typeof current === 'boolean' || typeof current === 'string') {
      put(current);
    } else if (typeof current === 'number') {
      if (!Number.isFinite(current)) refuse(path, 'not a finite number');
      if (Object.is(current, -0)) refuse(path, 'negative zero');
      put(current);
    } else if (Array.isArray(current)) {
      if (open.has(current)) refuse(path, 'part of a cycle');
      const keys = Reflect.ownKeys(current);
      if (keys.length !== current.length + 1) refuse(path, 'a sparse array or one with extra keys');
      const copy: Json[] = Array.from({ length: current.length }, () => null);
      put(copy);
      open.add(current);
      tasks.push({ kind: 'leave', value: current });
      for (let index = 0; index < current.length; index++) {
        if (!Object.prototype.hasOwnProperty.call(current, index)) refuse(path, 'a sparse array');
        const place = index;
        tasks.push({
          kind: 'copy',
          value: current[index],
          path: [...path, index],
          put: (item) => (copy[place] = item),
        });
      }
    } else if (isPlainObject(current)) {
      if (open.has(current)) refuse(path, 'part of a cycle');
      const copy: Record<string, Json> = {};
      put(copy);
      open.add(current);
      tasks.push({ kind: 'leave', value: current });
      for (const key of Reflect.ownKeys(current)) {
        if (typeof key === 'symbol') return refuse([...path, String(key)], 'keyed by a symbol');
        if (!Object.prototype.propertyIsEnumerable.call(current, key))
          refuse([...path, key], 'not enumerable');
        // Reserve the place now, so that the copy keeps the order of the keys.
        define(copy, key, null);
        tasks.push({
          kind: 'copy',
          value: current[key],
          path: [...path, key],
          put: (item) => define(copy, key, item),
        });
      }
    } else {
      refuse(path, current === undefined ? 'undefined' : `a ${describe(current)}`);
    }
  }
  return root.result as Json;
}

function define(target: Record<string, Json>, key: string, value: Json): void {
  if (key === '__proto__') {
    Object.defineProperty(target, key, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  } else {
    target[key] = value;
  }
}

function describe(value: unknown): string {
  if (typeof value !== 'object' || value === null) return typeof value;
  const name: unknown = (value as { constructor?: { name?: unknown } }).constructor?.name;
  return typeof name === 'string' && name !== '' ? `${name} instance` : 'class instance';
}

/** Freeze a JSON value all the way down and return it. Iterative: depth is no limit. */
export function deepFreeze<T>(value: T): T {
  const tasks: unknown[] = [value];
  for (let next = tasks.pop(); tasks.length > 0 || next !== undefined; next = tasks.pop()) {
    if (typeof next !== 'object' || next === null || Object.isFrozen(next)) continue;
    Object.freeze(next);
    tasks.push(...Object.values(next));
  }
  return value;
}
