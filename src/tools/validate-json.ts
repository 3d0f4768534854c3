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
  for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) {
    if ('leave' in task) open.delete(task.leave);
    else if ('choose' in task) {
      const matches = task.choose.filter((sink) => sink.length === 0).length;
      if (matches !== 1) {
        const count = matches === 0 ? 'none' : `${matches}`;
        task.sink.push(
          `${placeOf(task.place)} must match exactly one of ${task.choose.length} schemas ` +
            `and matches ${count}`,
        );
        if (matches === 0) for (const sink of task.choose) task.sink.push(...sink.slice(0, 1));
      }
    } else {
      const next = check(task, open);
      for (let index = next.length - 1; index >= 0; index--) tasks.push(next[index]!);
    }
  }
  return violations;
}

/** Look at one value; what is left to look at is returned, in the order to do it. */
function check(task: Extract<Task, { schema: unknown }>, open: Set<object>): Task[] {
  const { schema, value, place, sink } = task;
  const report = (what: string): Task[] => {
    sink.push(`${placeOf(place)} ${what}`);
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
    if (allowed !== undefined && !allowed.includes(value)) {
      return report(`must be one of ${allowed.map((item) => JSON.stringify(item)).join(', ')}`);
    }
    if (Object.hasOwn(schema, 'const') && schema['const'] !== value) {
      return report(`must be ${JSON.stringify(schema['const'])}`);
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
    return report(error instanceof NotJson ? error.message : 'cannot be read');
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
  const problems: string[] = [];
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
    } else if (isClosed) problems.push(`${placeOf(inside)} is not a known property`);
    else tasks.push({ schema: ANYTHING, value: item, place: inside, sink });
  }
  for (const name of (schema['required'] as readonly string[] | undefined) ?? []) {
    if (!present.has(name)) sink.push(`${placeOf(within(place, name))} is missing`);
  }
  sink.push(...problems);
  return tasks;
}

function isJsonScalar(value: unknown): boolean {
  return ['null', 'boolean', 'string', 'number'].some((type) => isScalarOf(type, value));
}
