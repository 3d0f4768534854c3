import { Ajv2020 } from 'ajv/dist/2020.js';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Json, JsonObject } from '../../protocol/json.ts';
import { schemaViolations, validateJson } from '../../src/tools/json-schema.ts';
import { anySchema, mutations, valueFor, valueNear, wraps } from './schema-arbitraries.ts';

const runs = { seed: 202_012, numRuns: 400 };
const pick = fc.nat(1_000);
const depth = fc.array(fc.constantFrom(...wraps), { maxLength: 6 });
const ajv = new Ajv2020({ strict: true, ownProperties: true, addUsedSchema: false });

/** A copy whose objects have no prototype. */
function bare(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(bare);
  if (typeof value !== 'object' || value === null) return value;
  const copy: object = Object.create(null) as object;
  return Object.assign(
    copy,
    Object.fromEntries(Object.entries(value).map(([name, item]) => [name, bare(item)])),
  );
}

const REMARKS: readonly string[] = ['title', 'description', 'default', 'examples'];

/** A copy without annotations; a property may well have the name of one. */
function bareOfRemarks(node: Json, isRecord = false): Json {
  if (Array.isArray(node)) return (node as Json[]).map((item) => bareOfRemarks(item));
  if (typeof node !== 'object' || node === null) return node;
  const kept = Object.entries(node).filter(([name]) => isRecord || !REMARKS.includes(name));
  return Object.fromEntries(
    kept.map(([name, inner]) => [name, bareOfRemarks(inner, !isRecord && name === 'properties')]),
  );
}

describe('any schema of the subset', () => {
  it('is accepted, with and without prototypes, and is one for ajv', () => {
    fc.assert(
      fc.property(anySchema, (schema) => {
        const violations = [...schemaViolations(schema), ...schemaViolations(bare(schema))];
        return violations.length === 0 && ajv.validateSchema(schema) === true;
      }),
      runs,
    );
  });

  it('is accepted wherever it is put, also twice', () => {
    fc.assert(
      fc.property(anySchema, depth, (schema, wrappings) => {
        const twice = { oneOf: [schema, { type: 'array', items: schema }] };
        const wrapped = wrappings.reduce<object>((node, wrap) => wrap(node), twice);
        return schemaViolations(wrapped).length === 0;
      }),
      runs,
    );
  });
});

describe('a schema that takes one step out of the subset', () => {
  it.each(mutations.map((mutation) => [mutation.name, mutation] as const))(
    'is refused for %s, wherever in it',
    (_, { of, make }) => {
      fc.assert(
        fc.property(of, pick, depth, (node, picked, wrappings) => {
          const mutated = wrappings.reduce<unknown>(
            (inner, wrap) => wrap(inner),
            make(node, picked),
          );
          const violations = schemaViolations(mutated);
          return violations.length > 0 && violations.every((each) => each.length < 600);
        }),
        { ...runs, numRuns: 300 },
      );
    },
  );

  it('is told of every place that is wrong', () => {
    const steps = fc
      .constantFrom(...mutations)
      .chain(({ of, make }) => fc.tuple(of, pick).map(([node, picked]) => make(node, picked)));
    fc.assert(
      fc.property(fc.array(steps, { minLength: 2, maxLength: 6 }), (wrong) => {
        const properties = Object.fromEntries(
          wrong.flatMap((node, index) => [
            [`wrong${index}`, node],
            [`right${index}`, { type: 'string' }],
          ]),
        );
        const places = schemaViolations({ type: 'object', properties }).map(
          (violation) => /^"properties\.([a-z]+\d)/.exec(violation)?.[1],
        );
        expect(new Set(places)).toEqual(new Set(wrong.map((__, index) => `wrong${index}`)));
      }),
      runs,
    );
  });

  it.each(wraps.map((wrap, index) => [['items', 'properties', 'oneOf'][index], wrap] as const))(
    'is refused below 50,000 levels of %s',
    (_, wrap) => {
      let schema: unknown = { type: 'string', default: -0 };
      let nested: unknown = 'deep';
      for (let level = 0; level < 50_000; level++) {
        schema = wrap(schema);
        nested = [nested];
      }
      expect(schemaViolations(schema)).toEqual([expect.stringContaining('lossless JSON')]);
      expect(schemaViolations({ default: nested })).toEqual([]);
    },
  );
});

describe('any value against any schema of the subset', () => {
  it('is an instance for us when it is one for ajv', () => {
    const count = { valid: 0, invalid: 0 };
    fc.assert(
      fc.property(
        anySchema.chain((schema) => fc.tuple(fc.constant(schema), valueNear(schema))),
        ([schema, value]) => {
          const isInstance = ajv.validate(schema, value);
          count[isInstance ? 'valid' : 'invalid']++;
          return (validateJson(schema, value).length === 0) === isInstance;
        },
      ),
      { ...runs, numRuns: 600 },
    );
    expect(count.valid).toBeGreaterThan(120);
    expect(count.invalid).toBeGreaterThan(120);
  });

  it('is one when it was made for a schema without branches', () => {
    const plain = anySchema.filter((schema) => !JSON.stringify(schema).includes('"oneOf"'));
    fc.assert(
      fc.property(
        plain.chain((schema) => fc.tuple(fc.constant(schema), valueFor(schema))),
        ([schema, value]) => {
          return validateJson(schema, value).length === 0;
        },
      ),
      runs,
    );
  });

  it('is judged the same whatever the schema says beside its constraints', () => {
    fc.assert(
      fc.property(
        anySchema.chain((schema) => fc.tuple(fc.constant(schema), valueNear(schema))),
        ([schema, value]) => {
          const stripped = bareOfRemarks(schema) as JsonObject;
          return validateJson(schema, value).join() === validateJson(stripped, value).join();
        },
      ),
      runs,
    );
  });
});

describe('where we and ajv differ, on purpose', () => {
  const loop: { self?: unknown } = {};
  loop.self = loop;
  const closed = { type: 'object', additionalProperties: false };
  const named = JSON.parse(
    '{"type": "object", "properties": {"__proto__": {"type": "string"}}}',
  ) as JsonObject;

  it.each<[string, JsonObject, unknown]>([
    ['a negative zero', { type: 'number' }, -0],
    ['a negative zero that is compared', { type: 'integer', enum: [0] }, -0],
    ['a value that is no JSON at all', {}, () => {}],
    ['a number that is none, where anything goes', {}, Number.NaN],
    ['an instance of a class', { type: 'object' }, new Date(0)],
    ['a list with holes', { type: 'array' }, Array(1)],
    ['a list with a key', { type: 'array' }, Object.assign([], { a: 1 })],
    ['a symbol for a key', closed, { [Symbol('s')]: 1 }],
    ['a hidden key', closed, Object.defineProperty({}, 'a', { value: 1 })],
    ['what contains itself', {}, loop],
    ['a declared property named __proto__', named, JSON.parse('{"__proto__": 1}')],
  ])('only we refuse %s', (_, schema, value) => {
    expect([ajv.validate(schema, value), validateJson(schema, value).length]).toEqual([true, 1]);
  });

  it.each<[string, JsonObject, unknown]>([
    ['an undefined property where none is known', closed, { a: undefined }],
    [
      'an undefined property of a type',
      { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: false },
      { b: undefined },
    ],
  ])('only ajv refuses %s', (_, schema, value) => {
    expect([ajv.validate(schema, value), validateJson(schema, value)]).toEqual([false, []]);
  });

  it.each<[string, JsonObject]>([
    ['a name given twice', { type: 'object', properties: { a: {} }, required: ['a', 'a'] }],
    ['examples that are no list', { examples: 'any JSON' }],
  ])('only ajv refuses a schema for %s', (_, schema) => {
    expect([ajv.validateSchema(schema), schemaViolations(schema)]).toEqual([false, []]);
  });

  it('only ajv overflows', () => {
    let deep: JsonObject = {};
    for (let level = 0; level < 20_000; level++) deep = { type: 'array', items: deep };
    expect(() => ajv.compile(deep)).toThrow(RangeError);
    expect(validateJson(deep, [[]])).toEqual([]);
  });
});
