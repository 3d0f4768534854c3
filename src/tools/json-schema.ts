import { JsonSchemaError } from '../../protocol/errors.ts';
import { isPlainObject, losslessCopy } from '../../protocol/json.ts';
import type { Budget, Json } from '../../protocol/json.ts';
import { toErrorRecord } from '../../protocol/error-record.ts';
import type { ObjectJsonSchema } from '../../protocol/session-events.ts';
import { isScalarOf } from './json-type.ts';
import { placeOf, within } from './place.ts';
import type { Place } from './place.ts';

export { validateJson } from './validate-json.ts';

/** Written out, a schema of this size takes main some tens of milliseconds. */
export const MAX_SCHEMA_VALUES = 100_000;
/** Where a walk gives up. */
const MAX_NODES = 2 * MAX_SCHEMA_VALUES;

/** Violations that are told. */
const MAX_TOLD = 200;
const SHOWN_CHARS = 64;

const CONSTRAINTS = [
  'type',
  'oneOf',
  'properties',
  'required',
  'additionalProperties',
  'items',
  'enum',
  'const',
];
const ANNOTATIONS = ['description', 'title', 'default', 'examples'];
const SCALARS = ['string', 'number', 'integer', 'boolean', 'null'];
const TYPES = ['object', 'array', ...SCALARS];
const OBJECT_ONLY = ['properties', 'required', 'additionalProperties'];
const ARRAY_ONLY = ['items'];
const SCALAR_ONLY = ['enum', 'const'];

/**
 * Check that a schema is inside the enforced subset, with an object at its root.
 *
 * The walk keeps its own stack, so a deep schema cannot overflow it, and it reads what it is
 * given defensively: an accessor or a proxy that throws is a violation like any other.
 *
 * @throws {JsonSchemaError} `UNSUPPORTED_SCHEMA`, with all violations.
 */
export function assertObjectJsonSchema(schema: unknown): asserts schema is ObjectJsonSchema {
  const { violations, rootType } = walked(schema);
  if (violations.length === 0 && rootType !== 'object') {
    violations.push('the schema must have "type": "object" at its root');
  }
  if (violations.length > 0) throw new JsonSchemaError(violations);
}

/**
 * A copy of a schema, for which all that {@link assertObjectJsonSchema} says holds: what the
 * caller's object says later, or at another reading, is not in it.
 *
 * @throws {JsonSchemaError} `UNSUPPORTED_SCHEMA`, also for one of more than
 *   {@link MAX_SCHEMA_VALUES} values, each counted as often as it would be written.
 */
export function copyOfObjectJsonSchema(schema: unknown): ObjectJsonSchema {
  const budget = { left: MAX_SCHEMA_VALUES };
  let copy: Json;
  try {
    copy = losslessCopy(schema, budget);
  } catch (error) {
    // The walk says where and what. Beside that it is too large, or says something else by now.
    assertObjectJsonSchema(schema);
    throw new JsonSchemaError([
      budget.left < 0
        ? `the schema holds more than ${MAX_SCHEMA_VALUES} values, a shared part counted each time`
        : `the schema cannot be read (${toErrorRecord(error).message})`,
    ]);
  }
  assertObjectJsonSchema(copy);
  return copy;
}

/** Everything that puts a schema outside the enforced subset; any root type. */
export function schemaViolations(schema: unknown): string[] {
  return walked(schema).violations;
}

function walked(schema: unknown): SchemaWalk {
  const walk = new SchemaWalk();
  walk.run(schema);
  return walk;
}

type Task = { readonly node: unknown; readonly place: Place } | { readonly leave: object };
type SchemaNode = ReadonlyMap<string, unknown>;

class SchemaWalk {
  readonly violations: string[] = [];
  /** As it was read for the check: each part of a schema is read once. */
  rootType: unknown;
  /** The nodes from the root to the one being looked at. */
  readonly #ancestors = new Set<object>();
  /**
   * Nodes that were looked at. What they and all below them have wrong is told once, at the first
   * place: shared parts would have as many places as there are paths to them. None of them can
   * lead to a node that is open now: it would have been open, or looked at, then.
   */
  readonly #known = new Set<object>();
  /** Of values in annotations. */
  readonly #budget = { left: MAX_SCHEMA_VALUES };
  readonly #tasks: Task[] = [];

  run(schema: unknown): void {
    this.#tasks.push({ node: schema, place: undefined });
    for (let task = this.#tasks.pop(); task !== undefined; task = this.#tasks.pop()) {
      if ('leave' in task) this.#ancestors.delete(task.leave);
      else this.#visit(task.node, task.place);
    }
  }

  #visit(value: unknown, place: Place): void {
    if (typeof value === 'object' && value !== null && this.#ancestors.has(value)) {
      return this.#report(place, 'is circular');
    }
    if (this.#known.has(value as object)) return;
    if (this.#known.size === MAX_NODES) {
      // No end in sight: an accessor may give another node each time.
      this.#report(place, `is one of more than ${MAX_NODES} schemas`);
      this.#tasks.length = 0;
      return;
    }
    const node = this.#read(value, place);
    if (node === undefined) return;
    if (place === undefined) this.rootType = node.get('type');
    this.#known.add(value as object);
    this.#ancestors.add(value as object);
    this.#tasks.push({ leave: value as object });
    this.#checkKeywords(node, place);
    this.#checkAnnotations(node, place);
    // Pushed last-in first-out: what comes first in the schema is reported first.
    const children: Task[] = [];
    if (node.has('oneOf')) this.#checkOneOf(node, place, children);
    else if (node.has('type')) this.#checkTyped(node, place, children);
    else {
      const stray = [...node.keys()].filter((key) => CONSTRAINTS.includes(key));
      if (stray.length > 0) this.#report(place, `has ${list(stray)} without a "type"`);
    }
    this.#tasks.push(...children.reverse());
  }

  /** The own parts of a node, each read once; `undefined` when it is no node at all. */
  #read(value: unknown, place: Place): SchemaNode | undefined {
    try {
      if (!isPlainObject(value)) {
        this.#report(place, 'must be a plain object');
        return undefined;
      }
      const node = new Map<string, unknown>();
      for (const key of Reflect.ownKeys(value)) {
        if (typeof key === 'symbol') this.#report(place, 'has a key that is a symbol');
        else if (!Object.prototype.propertyIsEnumerable.call(value, key)) {
          this.#report(place, `has a key "${shown(key)}" that is not enumerable`);
        } else node.set(key, readOr(value, key, UNREADABLE));
      }
      return node;
    } catch {
      // A proxy whose traps throw. Nothing of it can be relied on.
      this.#report(place, 'cannot be read');
      return undefined;
    }
  }

  #checkKeywords(node: SchemaNode, place: Place): void {
    for (const key of node.keys()) {
      if (!CONSTRAINTS.includes(key) && !ANNOTATIONS.includes(key)) {
        this.#report(place, `has the unsupported keyword "${shown(key)}"`);
      }
    }
  }

  #checkAnnotations(node: SchemaNode, place: Place): void {
    for (const key of ['description', 'title']) {
      if (node.has(key) && typeof node.get(key) !== 'string') {
        this.#report(within(place, key), 'must be a string');
      }
    }
    for (const key of ['default', 'examples']) {
      if (!node.has(key) || this.#budget.left < 0) continue;
      if (isLossless(node.get(key), this.#budget)) continue;
      const isLarge = this.#budget.left < 0;
      this.#report(within(place, key), isLarge ? 'is too large' : 'must be lossless JSON');
    }
  }

  #checkOneOf(node: SchemaNode, place: Place, children: Task[]): void {
    const siblings = [...node.keys()].filter((key) => key !== 'oneOf' && CONSTRAINTS.includes(key));
    if (siblings.length > 0) this.#report(place, `has ${list(siblings)} beside "oneOf"`);
    const branches = denseItems(node.get('oneOf'));
    if (branches === undefined || branches.length < 2) {
      return this.#report(within(place, 'oneOf'), 'must be a list of two or more schemas');
    }
    branches.forEach((branch, index) =>
      children.push({ node: branch, place: within(place, 'oneOf', String(index)) }),
    );
  }

  #checkTyped(node: SchemaNode, place: Place, children: Task[]): void {
    const type = node.get('type');
    if (typeof type !== 'string' || !TYPES.includes(type)) {
      return this.#report(within(place, 'type'), `must be one of ${list(TYPES)}`);
    }
    const fits = (keys: readonly string[], isFitting: boolean): void => {
      for (const key of keys) {
        if (node.has(key) && !isFitting) {
          this.#report(place, `of type "${type}" cannot have "${key}"`);
        }
      }
    };
    fits(OBJECT_ONLY, type === 'object');
    fits(ARRAY_ONLY, type === 'array');
    fits(SCALAR_ONLY, SCALARS.includes(type));
    if (type === 'object') this.#checkObject(node, place, children);
    else if (type === 'array') {
      if (node.has('items'))
        children.push({ node: node.get('items'), place: within(place, 'items') });
    } else this.#checkScalar(node, type, place);
  }

  #checkObject(node: SchemaNode, place: Place, children: Task[]): void {
    let properties: SchemaNode = new Map();
    if (node.has('properties')) {
      const inside = within(place, 'properties');
      properties = this.#read(node.get('properties'), inside) ?? properties;
      for (const [name, child] of properties) {
        children.push({ node: child, place: within(inside, name) });
      }
    }
    if (node.has('required')) {
      const inside = within(place, 'required');
      const names = denseItems(node.get('required'));
      if (names === undefined || names.some((name) => typeof name !== 'string')) {
        this.#report(inside, 'must be a list of strings');
      } else {
        for (const name of new Set(names as string[])) {
          if (!properties.has(name))
            this.#report(inside, `names "${shown(name)}", which is no property`);
        }
      }
    }
    const open = node.get('additionalProperties');
    if (node.has('additionalProperties') && typeof open !== 'boolean') {
      this.#report(within(place, 'additionalProperties'), 'must be true or false');
    }
  }

  #checkScalar(node: SchemaNode, type: string, place: Place): void {
    let values: readonly unknown[] | undefined;
    if (node.has('enum')) {
      values = denseItems(node.get('enum'));
      if (values === undefined || values.length === 0) {
        this.#report(within(place, 'enum'), 'must be a list of one or more values');
      } else if (!values.every((value) => isScalarOf(type, value))) {
        this.#report(within(place, 'enum'), `must hold values of type "${type}" only`);
      }
    }
    if (!node.has('const')) return;
    const value = node.get('const');
    if (!isScalarOf(type, value)) {
      this.#report(within(place, 'const'), `must be a value of type "${type}"`);
    } else if (values !== undefined && !values.includes(value)) {
      this.#report(within(place, 'const'), 'must be one of the values of "enum"');
    }
  }

  #report(place: Place, what: string): void {
    if (this.violations.length >= MAX_TOLD) return;
    this.violations.push(`${placeOf(place, 'the schema')} ${what}`);
  }
}

/** Stands for a part whose accessor threw: it is no JSON, no string and no list. */
const UNREADABLE = Symbol('unreadable');

function readOr<T>(target: Record<string, unknown>, key: string, otherwise: T): unknown {
  try {
    return target[key];
  } catch {
    // A hostile or broken accessor.
    return otherwise;
  }
}

function isLossless(value: unknown, budget: Budget): boolean {
  try {
    losslessCopy(value, budget);
    return true;
  } catch {
    // Not JSON, or unreadable: both mean no.
    return false;
  }
}

/** The items of a plain array without holes or extra keys; `undefined` for anything else. */
function denseItems(value: unknown): readonly unknown[] | undefined {
  try {
    // An array of any realm: its prototype is an array itself, which that of a subclass is not.
    if (!Array.isArray(value) || !Array.isArray(Object.getPrototypeOf(value))) return undefined;
    if (Reflect.ownKeys(value).length !== value.length + 1) return undefined;
    const items = Array.from({ length: value.length }, (_, index): unknown => value[index]);
    return items.every((_, index) => Object.hasOwn(value, index)) ? items : undefined;
  } catch {
    // An accessor or a trap that throws.
    return undefined;
  }
}

const shown = (key: string): string => key.slice(0, SHOWN_CHARS);

function list(words: readonly string[]): string {
  return words.map((word) => `"${word}"`).join(', ');
}
