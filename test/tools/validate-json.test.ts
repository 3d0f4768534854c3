import { Ajv2020 } from 'ajv/dist/2020.js';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../../protocol/json.ts';
import { schemaViolations, validateJson } from '../../src/tools/json-schema.ts';

const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  ...more,
});

describe('a value against a schema', () => {
  it.each<[JsonObject, unknown, string[]]>([
    [{}, { any: ['thing', null] }, []],
    [{ type: 'string' }, 1, ['the value must be a string, not a number']],
    [{ type: 'integer' }, 1.5, ['the value must be an integer, not a number']],
    [{ type: 'number' }, Number.NaN, ['the value must be JSON, not NaN']],
    [{ type: 'number' }, -0, ['the value must be JSON, not negative zero']],
    [{ type: 'null' }, false, ['the value must be null, not a boolean']],
    [{ type: 'string', enum: ['a', 'b'] }, 'c', ['the value must be one of "a", "b"']],
    [{ type: 'string', const: 'a' }, 'c', ['the value must be "a"']],
    [{ type: 'array' }, {}, ['the value must be an array, not an object']],
    [{ type: 'object' }, [], ['the value must be an object, not an array']],
    [
      { type: 'array', items: { type: 'string' } },
      ['a', 1, null],
      ['"1" must be a string, not a number', '"2" must be a string, not null'],
    ],
    [
      object({ a: {}, b: {} }, { required: ['a', 'b'] }),
      { b: undefined },
      ['"a" is missing', '"b" is missing'],
    ],
    [
      object({ a: {} }, { additionalProperties: false }),
      { a: 1, b: 1, c: undefined },
      ['"b" is not a known property'],
    ],
    [
      object({ a: object({ b: { type: 'boolean' } }) }),
      { a: { b: 0 } },
      ['"a.b" must be a boolean, not a number'],
    ],
    [object({}, { required: ['toString'] }), {}, ['"toString" is missing']],
  ])('%j takes %j: %j', (schema, value, violations) => {
    expect(validateJson(schema, value)).toEqual(violations);
  });

  it('must match exactly one branch', () => {
    const schema = { oneOf: [{ type: 'string' }, { type: 'integer' }, { type: 'number' }] };
    expect(validateJson(schema, 'a')).toEqual([]);
    expect(validateJson(schema, 1.5)).toEqual([]);
    expect(validateJson(schema, 1)).toEqual([
      'the value must match exactly one of 3 schemas and matches 2',
    ]);
    expect(validateJson(schema, null)).toEqual([
      'the value must match exactly one of 3 schemas and matches none',
      'the value must be a string, not null',
      'the value must be an integer, not null',
      'the value must be a number, not null',
    ]);
  });

  it.each<[string, unknown]>([
    ['a date', new Date()],
    ['a function', () => {}],
    ['a bigint', 1n],
    ['a list with a hole', Array(1)],
    ['a list with a key', Object.assign([], { a: 1 })],
    ['a symbol for a key', { [Symbol('s')]: 1 }],
    ['a hidden key', Object.defineProperty({}, 'a', { value: 1 })],
    [
      'a key that throws',
      {
        get a() {
          throw new Error('no');
        },
      },
    ],
    ['a list with nothing in it', [undefined]],
  ])('is no JSON when it holds %s, wherever that is', (_, value) => {
    expect(validateJson({}, value)).toHaveLength(1);
    expect(validateJson(object({ a: {} }), { other: [value] })).toHaveLength(1);
  });

  it('must not contain itself, and may hold one part twice', () => {
    const part = { a: 1 };
    expect(validateJson({}, [part, part])).toEqual([]);
    const loop: { self?: unknown } = {};
    loop.self = [loop];
    expect(validateJson({ oneOf: [{ type: 'object' }, { type: 'null' }] }, loop)).toContain(
      '"self.0" must not contain itself',
    );
  });

  it('is walked without recursion', () => {
    let value: unknown = Symbol('at the end');
    let schema: JsonObject = { type: 'string' };
    for (let depth = 0; depth < 50_000; depth++) {
      value = [value];
      schema =
        depth % 2 === 0 ? { type: 'array', items: schema } : { oneOf: [schema, { type: 'null' }] };
    }
    expect(validateJson({}, value)).toHaveLength(1);
    expect(validateJson(schema, 'x').length).toBeGreaterThan(0);
  });
});

const scalar = fc.oneof(
  fc.constant(null),
  fc.boolean(),
  fc.integer({ min: -2, max: 2 }),
  fc.constantFrom(0.5, 1.5, 1e300),
  fc.constantFrom('', 'a', 'b'),
);
const key = fc.constantFrom('a', 'b', 'c', 'constructor', 'hasOwnProperty');
const { value: jsonValue } = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalar,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(key, tie('value'), { maxKeys: 3 }),
  ),
}));

const ofType: Readonly<Record<string, readonly (string | number | boolean | null)[]>> = {
  string: ['', 'a', 'b'],
  number: [0, 1, 0.5],
  integer: [0, 1, 2],
  boolean: [true, false],
  null: [null],
};
const scalarSchema = fc.constantFrom(...Object.keys(ofType)).chain((type) =>
  fc.oneof(
    fc.constant<JsonObject>({ type }),
    fc
      .uniqueArray(fc.constantFrom(...ofType[type]!), { minLength: 1 })
      .map((values): JsonObject => ({ type, enum: values })),
    fc.constantFrom(...ofType[type]!).map((value): JsonObject => ({ type, const: value })),
  ),
);
const { schema: jsonSchema } = fc.letrec<{ schema: JsonObject }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalarSchema,
    fc.constant<JsonObject>({}),
    fc
      .option(tie('schema'), { nil: undefined })
      .map((items): JsonObject => ({ type: 'array', ...(items === undefined ? {} : { items }) })),
    fc
      .record({
        properties: fc.dictionary(key, tie('schema'), { maxKeys: 3 }),
        keep: fc.array(fc.boolean(), { minLength: 3, maxLength: 3 }),
        additionalProperties: fc.boolean(),
      })
      .map(({ properties, keep, additionalProperties }): JsonObject => ({
        type: 'object',
        properties: { ...properties },
        required: Object.keys(properties).filter((_, index) => keep[index]),
        additionalProperties,
      })),
    fc.array(tie('schema'), { minLength: 2, maxLength: 3 }).map((oneOf): JsonObject => ({ oneOf })),
  ),
}));

/** A value that a schema was written for, more or less. */
function near(schema: JsonObject): fc.Arbitrary<Json> {
  const anything = jsonValue;
  if (schema['oneOf'] !== undefined) {
    return fc.oneof(...(schema['oneOf'] as JsonObject[]).map(near), anything);
  }
  switch (schema['type']) {
    case 'array':
      return fc.oneof(
        fc.array(near((schema['items'] as JsonObject | undefined) ?? {}), { maxLength: 3 }),
        anything,
      );
    case 'object': {
      const properties = schema['properties'] as Readonly<Record<string, JsonObject>>;
      const values = Object.fromEntries(
        Object.entries(properties).map(([name, child]) => [name, near(child)]),
      );
      const required = schema['required'] as string[];
      return fc.oneof(
        fc.record(values, { requiredKeys: required }) as fc.Arbitrary<Json>,
        anything,
      );
    }
    case undefined:
      return anything;
    default:
      return fc.oneof(fc.constantFrom(...ofType[schema['type'] as string]!), anything);
  }
}

it('agrees with ajv about every schema of the subset', () => {
  const ajv = new Ajv2020({ strict: false, ownProperties: true, addUsedSchema: false });
  let valid = 0;
  let invalid = 0;
  fc.assert(
    fc.property(
      jsonSchema.chain((schema) => fc.tuple(fc.constant(schema), near(schema))),
      ([schema, value]) => {
        expect(schemaViolations(schema)).toEqual([]);
        const plain = JSON.parse(JSON.stringify(value)) as Json;
        const accepted = ajv.validate(schema, plain);
        expect(validateJson(schema, plain).length === 0).toBe(accepted);
        if (accepted) valid++;
        else invalid++;
      },
    ),
    { numRuns: 400 },
  );
  expect(Math.min(valid, invalid)).toBeGreaterThan(40);
});
