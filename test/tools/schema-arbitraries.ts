/** Schemas of the enforced subset, values for them, and every way out of it. */
import * as fc from 'fast-check';
import type { Json, JsonObject } from '../../protocol/json.ts';

type Scalar = string | number | boolean | null;

const OF_TYPE: Readonly<Record<string, readonly Scalar[]>> = {
  string: ['', 'a', 'b', 'é\ud800'],
  number: [0, 1, 0.5, -1e300],
  integer: [0, 1, -2, 1e300],
  boolean: [true, false],
  null: [null],
};
const SCALAR_TYPES = Object.keys(OF_TYPE);

const key = fc.constantFrom('a', 'b', 'c', '', 'constructor', 'toString', 'hasOwnProperty');
const { value: anyJson } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom(...Object.values(OF_TYPE).flat(), 1.5, -1),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(key, tie('value'), { maxKeys: 3, noNullPrototype: true }),
  ),
}));

const remark = fc.constantFrom<Json>(null, 0, 'a', [], { a: [1, { b: null }] });
const annotations: fc.Arbitrary<JsonObject> = fc.record(
  {
    title: fc.string({ maxLength: 3 }),
    description: fc.string({ maxLength: 3 }),
    default: remark,
    examples: fc.array(remark, { maxLength: 2 }),
  },
  { requiredKeys: [], noNullPrototype: true },
);
/** Mostly without, as schemas are. */
const annotated = (constraints: fc.Arbitrary<JsonObject>): fc.Arbitrary<JsonObject> =>
  fc
    .tuple(constraints, fc.oneof({ weight: 3, arbitrary: fc.constant({}) }, annotations))
    .map(([left, right]) => ({ ...left, ...right }));

const scalarNode = fc.constantFrom(...SCALAR_TYPES).chain((type) => {
  const values = fc.uniqueArray(fc.constantFrom(...OF_TYPE[type]!), { minLength: 1 });
  return fc.oneof(
    fc.constant<JsonObject>({ type }),
    values.map((list): JsonObject => ({ type, enum: list })),
    fc.constantFrom(...OF_TYPE[type]!).map((value): JsonObject => ({ type, const: value })),
    values.map((list): JsonObject => ({ type, enum: list, const: list.at(-1)! })),
  );
});

const arrayNode = (item: fc.Arbitrary<JsonObject>): fc.Arbitrary<JsonObject> =>
  fc
    .option(item, { nil: undefined })
    .map((items) => ({ type: 'array', ...(items === undefined ? {} : { items }) }));

const objectNode = (child: fc.Arbitrary<JsonObject>): fc.Arbitrary<JsonObject> =>
  fc
    .record({
      properties: fc.dictionary(key, child, { maxKeys: 3, noNullPrototype: true }),
      keep: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
      has: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
      additionalProperties: fc.boolean(),
    })
    .map(({ properties, keep, has, additionalProperties }) => ({
      type: 'object',
      ...(has[0] ? { properties } : {}),
      ...(has[0] && has[1]
        ? { required: Object.keys(properties).filter((_, index) => keep[index]) }
        : {}),
      ...(has[2] ? { additionalProperties } : {}),
    }));

const branches = (child: fc.Arbitrary<JsonObject>): fc.Arbitrary<JsonObject> =>
  fc.array(child, { minLength: 2, maxLength: 3 }).map((oneOf) => ({ oneOf }));

const nodes = fc.letrec<Record<'any' | 'array' | 'object' | 'oneOf', JsonObject>>((tie) => ({
  any: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    annotated(scalarNode),
    annotated(fc.constant({})),
    tie('array'),
    tie('object'),
    tie('oneOf'),
  ),
  array: annotated(arrayNode(tie('any'))),
  object: annotated(objectNode(tie('any'))),
  oneOf: annotated(branches(tie('any'))),
}));

export const anySchema: fc.Arbitrary<JsonObject> = nodes.any;

/** A value that was made for a schema, so that most are instances of it. */
export function valueFor(schema: JsonObject): fc.Arbitrary<Json> {
  const { oneOf, type } = schema;
  if (oneOf !== undefined) return fc.oneof(...(oneOf as readonly JsonObject[]).map(valueFor));
  if (type === undefined) return anyJson;
  if (type === 'array') {
    const items = (schema['items'] as JsonObject | undefined) ?? {};
    return fc.array(valueFor(items), { maxLength: 3 });
  }
  if (type === 'object') {
    const properties = (schema['properties'] ?? {}) as Readonly<Record<string, JsonObject>>;
    const required = (schema['required'] ?? []) as string[];
    const values = Object.entries(properties).map(([name, child]) => [name, valueFor(child)]);
    return fc.record(Object.fromEntries(values) as Record<string, fc.Arbitrary<Json>>, {
      requiredKeys: required,
      noNullPrototype: true,
    });
  }
  if (schema['const'] !== undefined) return fc.constant(schema['const']);
  return fc.constantFrom(...((schema['enum'] as Scalar[] | undefined) ?? OF_TYPE[type as string]!));
}

/** Mostly an instance, or next to one, or anything. */
export const valueNear = (schema: JsonObject): fc.Arbitrary<Json> =>
  fc.oneof(
    { weight: 4, arbitrary: valueFor(schema) },
    fc.tuple(valueFor(schema), anyJson, key).map(([value, other, name]): Json => {
      if (typeof value !== 'object' || value === null) return other;
      if (Array.isArray(value)) return [...(value as Json[]), other];
      return { ...(value as JsonObject), [name]: other };
    }),
    anyJson,
  );

/** One more step from the root of a valid schema down to a node. */
export type Wrap = (node: unknown) => object;
export const wraps: readonly Wrap[] = [
  (node) => ({ type: 'array', items: node }),
  (node) => ({ type: 'object', properties: { a: { type: 'null' }, p: node }, required: ['p'] }),
  (node) => ({ oneOf: [{ type: 'string' }, node] }),
];

/** One step out of the subset, made on a valid node. */
export interface Mutation {
  readonly name: string;
  readonly of: fc.Arbitrary<JsonObject>;
  readonly make: (node: JsonObject, pick: number) => unknown;
}

/** Objects of their own, so that they may be changed. */
const scalar = annotated(scalarNode);
const untyped = annotated(fc.constant({}));
const typed = fc.oneof(scalar, nodes.array, nodes.object);
const any = nodes.any;
const one = <T>(from: readonly T[], pick: number): T => from[pick % from.length]!;
const otherThan = (type: unknown): Scalar =>
  type === 'string' ? 1 : type === 'number' || type === 'integer' ? 'a' : 'other';
const throwing = (): never => {
  throw new Error('a trap');
};
const hidden = (node: object, name: string, how: PropertyDescriptor): object =>
  Object.defineProperty({ ...node }, name, { configurable: true, ...how });
const cyclic = (close: (self: unknown) => object): object => {
  const self = {};
  return Object.assign(self, close(self));
};
class Instance {
  readonly type = 'string';
}

const FOREIGN =
  '$ref $id $schema $defs $comment allOf anyOf not if then else pattern format minLength maximum ' +
  'multipleOf minItems uniqueItems contains prefixItems patternProperties propertyNames ' +
  'dependentRequired unevaluatedProperties nullable deprecated readOnly default2 Type';
const NO_NODE = [null, true, 'string', 1, [], new Date(0), new Map(), new Instance(), () => {}];
class Names extends Array<string> {}
const NO_LIST = [
  undefined,
  'a',
  {},
  null,
  Array(2),
  Object.assign(['a', 'b'], { extra: 1 }),
  Names.from(['a', 'b']),
];
const NO_JSON = [-0, Number.NaN, undefined, () => {}, new Date(0), 1n, [undefined], { x: -0 }];
const BY_TYPE: Readonly<Record<string, unknown>> = {
  properties: {},
  required: [],
  additionalProperties: false,
  items: {},
  enum: ['a'],
  const: 'a',
};
const FITTING: Readonly<Record<string, readonly string[]>> = {
  object: ['properties', 'required', 'additionalProperties'],
  array: ['items'],
};

export const mutations: readonly Mutation[] = [
  {
    name: 'a foreign keyword',
    of: any,
    make: (node, pick) => ({ ...node, [one(FOREIGN.split(' '), pick)]: {} }),
  },
  { name: 'a list of types', of: typed, make: (node) => ({ ...node, type: [node['type']] }) },
  {
    name: 'a type that is none',
    of: typed,
    make: (node, pick) => ({ ...node, type: one(['any', 'String', '', null, 1, {}], pick) }),
  },
  {
    name: 'an undeclared required name',
    of: nodes.object,
    make: (node) => ({ ...node, required: ['nowhere'] }),
  },
  {
    name: 'required names that are no list of texts',
    of: nodes.object,
    make: (node, pick) => ({ ...node, required: one([...NO_LIST, [1]], pick) }),
  },
  {
    name: 'properties that are no record',
    of: nodes.object,
    make: (node, pick) => ({ ...node, required: [], properties: one(NO_NODE, pick) }),
  },
  {
    name: 'a schema for other properties',
    of: nodes.object,
    make: (node, pick) => ({ ...node, additionalProperties: one([{}, null, 'no', 0], pick) }),
  },
  {
    name: 'items that are no node',
    of: nodes.array,
    make: (node, pick) => ({ ...node, items: one([...NO_NODE, undefined], pick) }),
  },
  {
    name: 'an enum that is no list',
    of: scalar,
    make: (node, pick) => ({ ...node, enum: one([...NO_LIST, []], pick) }),
  },
  {
    name: 'an enum of another type',
    of: scalar,
    make: (node) => ({ ...node, enum: [otherThan(node['type'])] }),
  },
  {
    name: 'a const of another type',
    of: scalar,
    make: (node) => ({ ...node, const: otherThan(node['type']) }),
  },
  {
    name: 'a negative zero to compare with',
    of: fc.constant({ type: 'number' }),
    make: (node, pick) => ({ ...node, ...one<object>([{ const: -0 }, { enum: [-0] }], pick) }),
  },
  {
    name: 'a const outside of its enum',
    of: fc.constant({ type: 'string' }),
    make: (node) => ({ ...node, enum: ['a'], const: 'b' }),
  },
  {
    name: 'too few branches',
    of: nodes.oneOf,
    make: (node, pick) => ({ ...node, oneOf: one<unknown>([[], [{}], ...NO_LIST], pick) }),
  },
  {
    name: 'a branch that is no node',
    of: nodes.oneOf,
    make: (node, pick) => ({ ...node, oneOf: [{}, one(NO_NODE, pick)] }),
  },
  {
    name: 'a keyword beside branches',
    of: nodes.oneOf,
    make: (node, pick) => ({
      ...node,
      ...one<object>(
        [
          { type: 'string' },
          ...Object.entries(BY_TYPE).map(([name, value]) => ({ [name]: value })),
        ],
        pick,
      ),
    }),
  },
  {
    name: 'a constraint without a type',
    of: untyped,
    make(node, pick) {
      const name = one(Object.keys(BY_TYPE), pick);
      return { ...node, [name]: BY_TYPE[name] };
    },
  },
  {
    name: 'a constraint of another type',
    of: typed,
    make(node, pick) {
      const fitting = FITTING[node['type'] as string] ?? ['enum', 'const'];
      const name = one(
        Object.keys(BY_TYPE).filter((each) => !fitting.includes(each)),
        pick,
      );
      return { ...node, [name]: BY_TYPE[name] };
    },
  },
  { name: 'no node', of: any, make: (_, pick) => one(NO_NODE, pick) },
  { name: 'what it inherits', of: any, make: (node) => Object.create(node) as object },
  { name: 'a symbol for a key', of: any, make: (node) => ({ ...node, [Symbol('s')]: 1 }) },
  {
    name: 'a hidden key',
    of: any,
    make: (node) => hidden(node, 'title', { value: 'x', enumerable: false }),
  },
  {
    name: 'an accessor that throws',
    of: any,
    make: (node, pick) =>
      hidden(node, one(['title', 'description', 'default', 'examples', 'type', 'oneOf'], pick), {
        get: throwing,
        enumerable: true,
      }),
  },
  {
    name: 'a trap',
    of: any,
    make: (node, pick) =>
      new Proxy(node, one([{ ownKeys: throwing }, { getPrototypeOf: throwing }], pick)),
  },
  {
    name: 'an annotation that JSON would lose',
    of: any,
    make: (node, pick) => ({
      ...node,
      [one(['default', 'examples'], pick)]: one(
        [...NO_JSON, cyclic((self) => ({ self }))],
        Math.floor(pick / 2),
      ),
    }),
  },
  {
    name: 'a title that is no text',
    of: any,
    make: (node, pick) => ({
      ...node,
      [one(['title', 'description'], pick)]: one([1, null], pick),
    }),
  },
  {
    name: 'itself',
    of: any,
    make: (_, pick) =>
      cyclic(
        one<(self: unknown) => object>(
          wraps.flatMap((wrap) => [wrap, (self: unknown) => wrap(wrap(self))]),
          pick,
        ),
      ),
  },
];
