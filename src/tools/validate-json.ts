import { isInstance } from '../../protocol/error-record.ts';
import { isPlainObject } from '../../protocol/json.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { isScalarOf, nameOf, withArticle } from './json-type.ts';
import { placeOf, within } from './place.ts';
import type { Place } from './place.ts';

type Sink = string[];
type Schema = Readonly<Record<string, unknown>>;
type Task =
  | { readonly schema: Schema; readonly value: unknown; readonly place: Place; readonly sink: Sink }
  | { readonly leave: object }
  | { readonly choose: readonly Sink[]; readonly place: Place; readonly sink: Sink };

const ANYTHING: Schema = {};

/**
 * Comparisons of one check, some tens of milliseconds of main: a value of many parts, each of them
 * held against many alternatives, is more than a sender may ask for.
 */
const MAX_STEPS = 300_000;
/** Violations that are told; whoever reads them has more than enough with these. */
const MAX_TOLD = 200;
const MAX_LISTED = 20;
const LISTED_CHARS = 200;

/**
 * Everything that keeps a value from being an instance of a schema of the enforced subset.
 * Empty: it is one. What is no lossless JSON is no instance either; a property that is
 * `undefined` counts as absent.
 *
 * A list of tasks instead of recursion: a value as deep as its sender likes cannot overflow it.
 * Last-in first-out, so a `choose` runs when all below its branches is done.
 */
export function validateJson(schema: JsonObject, value: unknown): string[] {
  const violations: Sink = [];
  const open = new Set<object>();
  const tasks: Task[] = [{ schema, value, place: undefined, sink: violations }];
  let steps = 0;
  for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
    steps += 'schema' in task ? stepsOf(task.schema) : 1;
    if (steps > MAX_STEPS) return [...violations, `${placeOf(undefined)} is too much to check`];
    if ('leave' in task) open.delete(task.leave);
    else if ('choose' in task) {
      const matches = task.choose.filter((sink) => sink.length === 0).length;
      if (matches !== 1) {
        const count = matches === 0 ? 'none' : `${matches}`;
        tell(
          task.sink,
          task.place,
          `must match exactly one of ${task.choose.length} schemas and matches ${count}`,
        );
        if (matches === 0) {
          for (const sink of task.choose.slice(0, MAX_TOLD)) task.sink.push(...sink.slice(0, 1));
        }
      }
    } else {
      const next = check(task, open);
      for (let index = next.length - 1; index >= 0; index--) tasks.push(next[index]!);
    }
  }
  return violations;
}

/** About the comparisons that one value costs with this schema, besides those of its parts. */
function stepsOf(schema: Schema): number {
  const many = (key: 'oneOf' | 'required'): number =>
    (schema[key] as readonly unknown[] | undefined)?.length ?? 0;
  return 1 + many('oneOf') + many('required');
}

function tell(sink: Sink, place: Place, what: string): void {
  if (sink.length < MAX_TOLD) sink.push(`${placeOf(place)} ${what}`);
}

/** The values of long lists, which are looked up once for each part of a value. */
const lookups = new WeakMap<readonly unknown[], ReadonlySet<unknown>>();
const SHORT = 16;

function isOneOf(allowed: readonly unknown[], value: unknown): boolean {
  if (allowed.length <= SHORT) return allowed.includes(value);
  let set = lookups.get(allowed);
  if (set === undefined) {
    set = new Set(allowed);
    lookups.set(allowed, set);
  }
  return set.has(value);
}

function listed(allowed: readonly unknown[]): string {
  const more = allowed.length > MAX_LISTED ? ', …' : '';
  return `${allowed.slice(0, MAX_LISTED).map(printed).join(', ')}${more}`;
}

const printed = (value: unknown): string => JSON.stringify(value).slice(0, LISTED_CHARS);

/** Look at one value; what is left to look at is returned, in the order to do it. */
function check(task: Extract<Task, { schema: unknown }>, open: Set<object>): Task[] {
  const { schema, value, place, sink } = task;
  const report = (what: string): Task[] => {
    tell(sink, place, what);
    return [];
  };
  const branches = schema['oneOf'] as readonly Schema[] | undefined;
  if (branches !== undefined) {
    const sinks = branches.map((): Sink => []);
    return [
      ...branches.map((branch, index) => ({ schema: branch, value, place, sink: sinks[index]! })),
      { choose: sinks, place, sink },
    ];
  }
  const type = schema['type'] as string | undefined;
  if (typeof value !== 'object' || value === null) {
    if (!isJsonScalar(value)) return report(`must be JSON, not ${nameOf(value)}`);
    if (type !== undefined && !isScalarOf(type, value)) {
      return report(`must be ${withArticle(type)}, not ${nameOf(value)}`);
    }
    const allowed = schema['enum'] as readonly unknown[] | undefined;
    if (allowed !== undefined && !isOneOf(allowed, value)) {
      return report(`must be one of ${listed(allowed)}`);
    }
    if (Object.hasOwn(schema, 'const') && schema['const'] !== value) {
      return report(`must be ${printed(schema['const'])}`);
    }
    return [];
  }
  if (open.has(value)) return report('must not contain itself');
  const isList = Array.isArray(value);
  if (type !== undefined && type !== (isList ? 'array' : 'object')) {
    return report(`must be ${withArticle(type)}, not ${nameOf(value)}`);
  }
  try {
    const children = isList ? itemsOf(value, task) : propertiesOf(value, task);
    open.add(value);
    return [...children, { leave: value }];
  } catch (error) {
    // Thrown below for what is no JSON container, or by an accessor of the value.
    return report(isInstance(error, NotJson) ? error.message : 'cannot be read');
  }
}

class NotJson extends Error {}

type ValueTask = Extract<Task, { schema: unknown }>;

function itemsOf(value: readonly unknown[], { schema, place, sink }: ValueTask): Task[] {
  if (Reflect.ownKeys(value).length !== value.length + 1) {
    throw new NotJson('must be a list without holes or extra keys');
  }
  const items = (schema['items'] as Schema | undefined) ?? ANYTHING;
  return Array.from({ length: value.length }, (_, index): Task => {
    if (!Object.hasOwn(value, index)) throw new NotJson('must be a list without holes');
    return { schema: items, value: value[index], place: within(place, index), sink };
  });
}

function propertiesOf(value: object, { schema, place, sink }: ValueTask): Task[] {
  if (!isPlainObject(value)) throw new NotJson('must be a plain object');
  const declared = (schema['properties'] as Readonly<Record<string, Schema>> | undefined) ?? {};
  const isClosed = schema['additionalProperties'] === false;
  const tasks: Task[] = [];
  const present = new Set<string>();
  const unknown: Place[] = [];
  for (const key of Reflect.ownKeys(value)) {
    if (typeof key === 'symbol' || !Object.prototype.propertyIsEnumerable.call(value, key)) {
      throw new NotJson('must have only enumerable keys that are strings');
    }
    const item = value[key];
    if (item === undefined) continue;
    present.add(key);
    const inside = within(place, key);
    if (Object.hasOwn(declared, key)) {
      tasks.push({ schema: declared[key]!, value: item, place: inside, sink });
    } else if (isClosed) unknown.push(inside);
    else tasks.push({ schema: ANYTHING, value: item, place: inside, sink });
  }
  for (const name of (schema['required'] as readonly string[] | undefined) ?? []) {
    if (!present.has(name)) tell(sink, within(place, name), 'is missing');
  }
  for (const inside of unknown.slice(0, MAX_TOLD)) tell(sink, inside, 'is not a known property');
  return tasks;
}

function isJsonScalar(value: unknown): boolean {
  return ['null', 'boolean', 'string', 'number'].some((type) => isScalarOf(type, value));
}
