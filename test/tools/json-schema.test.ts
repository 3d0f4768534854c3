import { createContext, runInContext } from 'node:vm';
import { describe, expect, it } from 'vitest';
import { JsonSchemaError } from '../../protocol/errors.ts';
import {
  assertObjectJsonSchema,
  copyOfObjectJsonSchema,
  schemaViolations,
} from '../../src/tools/json-schema.ts';

/** The violations of an object schema with one property `x` of the given schema. */
const inProperty = (x: unknown): string[] =>
  schemaViolations({ type: 'object', properties: { x } });

/** A part below so many levels, each of which has it twice. */
function shared(part: object, levels: number): object {
  for (let level = 0; level < levels; level++) {
    part = { type: 'object', properties: { a: part, b: part } };
  }
  return part;
}

describe('a schema in the enforced subset', () => {
  it('is accepted whole', () => {
    const shared = { type: 'string', enum: ['a', 'b'], const: 'a', title: 't', default: 'a' };
    assertObjectJsonSchema({
      type: 'object',
      description: 'all of it',
      properties: {
        any: { description: 'anything', examples: [{ deep: [null] }] },
        list: { type: 'array', items: { type: 'array' } },
        union: { oneOf: [shared, { type: 'null' }, { type: 'integer', enum: [1, 2] }] },
        again: shared,
        nested: { type: 'object', properties: {}, required: [], additionalProperties: false },
      },
      required: ['any', 'list'],
      additionalProperties: true,
    });
  });

  it('may come from another realm or have no prototype', () => {
    const foreign: unknown = runInContext(
      `({ type: 'object', properties: { a: { type: 'array', items: {} } }, required: ['a'] })`,
      createContext(),
    );
    assertObjectJsonSchema(foreign);
    assertObjectJsonSchema(Object.assign(Object.create(null), { type: 'object' }));
  });

  it('may use names that every object has', () => {
    const properties = JSON.parse('{"__proto__": {"type": "string"}, "constructor": {}}') as object;
    assertObjectJsonSchema({ type: 'object', properties, required: ['__proto__', 'constructor'] });
    expect(schemaViolations({ type: 'object', required: ['toString'] })).toEqual([
      '"required" names "toString", which is no property',
    ]);
  });
});

describe('the root of a schema', () => {
  it.each([
    [{ type: 'string' }],
    [{}],
    [{ oneOf: [{ type: 'object' }, { type: 'null' }] }],
    [Object.create({ type: 'object' }) as object],
  ])('must be an object schema: %j', (schema) => {
    expect(() => assertObjectJsonSchema(schema)).toThrow(JsonSchemaError);
  });

  it('is told only when there is nothing else to tell', () => {
    const violationsOf = (schema: unknown): readonly string[] => {
      try {
        assertObjectJsonSchema(schema);
      } catch (error) {
        if (error instanceof JsonSchemaError) return error.violations;
      }
      return [];
    };
    expect(violationsOf({ type: 'string' })).toEqual([
      'the schema must have "type": "object" at its root',
    ]);
    expect(violationsOf({ type: 'string', pattern: 'x' })).toEqual([
      'the schema has the unsupported keyword "pattern"',
    ]);
    expect(violationsOf([])).toEqual(['the schema must be a plain object']);
    expect(violationsOf(null)).toEqual(['the schema must be a plain object']);
  });
});

const at = '"properties.x';
describe('a schema outside of the subset', () => {
  it.each<[string, unknown, string[]]>([
    ['no object', true, [`${at}" must be a plain object`]],
    ['an instance of a class', new Date(), [`${at}" must be a plain object`]],
    ['a symbol for a key', { [Symbol('s')]: 1 }, [`${at}" has a key that is a symbol`]],
    [
      'a hidden key',
      Object.defineProperty({}, 'type', { value: 'string' }),
      [`${at}" has a key "type" that is not enumerable`],
    ],
    [
      'an unknown keyword',
      { type: 'string', pattern: 'x' },
      [`${at}" has the unsupported keyword "pattern"`],
    ],
    ['a reference', { $ref: '#' }, [`${at}" has the unsupported keyword "$ref"`]],
    ['a title that is no text', { title: 1 }, [`${at}.title" must be a string`]],
    [
      'a description that is no text',
      { description: null },
      [`${at}.description" must be a string`],
    ],
    ['a function for a default', { default: () => {} }, [`${at}.default" must be lossless JSON`]],
    ['a default that JSON would change', { default: -0 }, [`${at}.default" must be lossless JSON`]],
    [
      'an example that cannot be read',
      {
        get examples() {
          throw new Error('no');
        },
      },
      [`${at}.examples" must be lossless JSON`],
    ],
    [
      'type beside oneOf',
      { type: 'string', oneOf: [{}, {}] },
      [`${at}" has "type" beside "oneOf"`],
    ],
    ['one branch only', { oneOf: [{}] }, [`${at}.oneOf" must be a list of two or more schemas`]],
    [
      'holes for branches',
      { oneOf: Array(2) },
      [`${at}.oneOf" must be a list of two or more schemas`],
    ],
    ['constraints without a type', { enum: ['a'] }, [`${at}" has "enum" without a "type"`]],
    [
      'several types',
      { type: ['string', 'null'] },
      [
        `${at}.type" must be one of "object", "array", "string", "number", "integer", "boolean", "null"`,
      ],
    ],
    [
      'keywords of another type',
      { type: 'string', properties: {}, items: {} },
      [
        `${at}" of type "string" cannot have "properties"`,
        `${at}" of type "string" cannot have "items"`,
      ],
    ],
    [
      'enum of objects',
      { type: 'object', enum: [] },
      [`${at}" of type "object" cannot have "enum"`],
    ],
    [
      'const of lists',
      { type: 'array', const: [] },
      [`${at}" of type "array" cannot have "const"`],
    ],
    [
      'properties that are none',
      { type: 'object', properties: [] },
      [`${at}.properties" must be a plain object`],
    ],
    [
      'required that is no list',
      { type: 'object', required: 'a' },
      [`${at}.required" must be a list of strings`],
    ],
    [
      'required that is undeclared',
      { type: 'object', required: ['a'] },
      [`${at}.required" names "a", which is no property`],
    ],
    [
      'a schema for the rest',
      { type: 'object', additionalProperties: {} },
      [`${at}.additionalProperties" must be true or false`],
    ],
    [
      'items that are a list',
      { type: 'array', items: [{}] },
      [`${at}.items" must be a plain object`],
    ],
    [
      'an empty enum',
      { type: 'string', enum: [] },
      [`${at}.enum" must be a list of one or more values`],
    ],
    [
      'an enum of another type',
      { type: 'integer', enum: [1, 1.5] },
      [`${at}.enum" must hold values of type "integer" only`],
    ],
    [
      'a const of another type',
      { type: 'number', const: -0 },
      [`${at}.const" must be a value of type "number"`],
    ],
    [
      'a const outside its enum',
      { type: 'string', enum: ['a'], const: 'b' },
      [`${at}.const" must be one of the values of "enum"`],
    ],
  ])('is refused for %s', (_, schema, violations) => {
    expect(inProperty(schema)).toEqual(violations);
  });

  it('is told of everything at once, in order', () => {
    expect(
      schemaViolations({
        type: 'object',
        properties: {
          a: { type: 'string', minLength: 1 },
          b: { type: 'array', items: { type: 'any' } },
          c: { oneOf: [{ type: 'string', items: {} }, 3] },
        },
        required: ['d'],
      }).map((violation) => violation.split('"')[1]),
    ).toEqual([
      'required',
      'properties.a',
      'properties.b.items.type',
      'properties.c.oneOf.0',
      'properties.c.oneOf.1',
    ]);
  });

  it('is refused when it holds itself, not when it holds one part twice', () => {
    const part = { type: 'string' };
    expect(inProperty({ oneOf: [part, part] })).toEqual([]);
    const circular: { type: string; items?: unknown } = { type: 'array' };
    circular.items = { type: 'array', items: circular };
    expect(inProperty(circular)).toEqual([`${at}.items.items" is circular`]);
  });

  it('is looked at once, however many paths lead to a part of it', () => {
    let visits = 0;
    const leaf = Object.defineProperty({}, 'type', {
      enumerable: true,
      get: () => (visits++, 'text'),
    });
    expect(inProperty(shared(leaf, 60))).toEqual([
      expect.stringMatching(/properties\.a\.type" must be one of/) as string,
    ]);
    expect(visits).toBe(1);
  });

  it('is refused for each way back to an open part, also from a shared one', () => {
    const root: { type: string; properties: Record<string, unknown> } = {
      type: 'object',
      properties: {},
    };
    const part = { type: 'array', items: root };
    Object.assign(root.properties, { a: part, b: part, c: { type: 'array', items: part } });
    expect(schemaViolations(root)).toEqual(['"properties.a.items" is circular']);
    const twice = { type: 'object', properties: { a: { items: 1 }, b: root } };
    expect(schemaViolations(twice)).toEqual([
      '"properties.a" has "items" without a "type"',
      '"properties.b.properties.a.items" is circular',
    ]);
  });

  it('is refused when it never ends', () => {
    const endless = (): object =>
      Object.defineProperty({ type: 'array' }, 'items', { enumerable: true, get: endless });
    expect(inProperty(endless())).toEqual([
      expect.stringMatching(/is one of more than 200000 schemas/) as string,
    ]);
    expect(() => copyOfObjectJsonSchema(endless())).toThrow(JsonSchemaError);
  });

  it('is refused for annotations that share so much that they could not be written', () => {
    expect(inProperty({ default: shared({}, 60), examples: [1] })).toEqual([
      `${at}.default" is too large`,
    ]);
  });

  it('is refused, not obeyed, when it is a trap', () => {
    const trap = new Proxy(
      {},
      {
        ownKeys() {
          throw new Error('trap');
        },
      },
    );
    expect(inProperty(trap)).toEqual([`${at}" cannot be read`]);
    expect(inProperty({ oneOf: trap })).toEqual([
      `${at}.oneOf" must be a list of two or more schemas`,
    ]);
  });

  it('is walked without recursion', () => {
    let schema: object = { type: 'string', pattern: 'x' };
    for (let depth = 0; depth < 50_000; depth++) schema = { type: 'array', items: schema };
    const violations = inProperty(schema);
    expect(violations).toHaveLength(1);
    expect(violations[0]!.length).toBeLessThan(200);
  });
});

describe('a copy of a schema', () => {
  it('is what was checked, though the schema says something else at the next reading', () => {
    const types = ['integer'];
    const n = Object.defineProperty({}, 'type', { enumerable: true, get: () => types.shift() });
    expect(copyOfObjectJsonSchema({ type: 'object', properties: { n } })).toEqual({
      type: 'object',
      properties: { n: { type: 'integer' } },
    });
  });

  it('has each shared part in every place, as long as it can be written', () => {
    const copy = JSON.stringify(copyOfObjectJsonSchema(shared({ type: 'null' }, 3)));
    expect(copy.match(/null/g)).toHaveLength(8);
    expect(() => copyOfObjectJsonSchema(shared({ type: 'null' }, 60))).toThrow(
      /holds more than 100000 values, a shared part counted each time/,
    );
  });

  it('is not made of what is outside of the subset, for all that is wrong with it', () => {
    const schema = { type: 'object', default: () => {}, properties: { x: { type: 'text' } } };
    expect(() => copyOfObjectJsonSchema(schema)).toThrow(
      /"default" must be lossless JSON; "properties.x.type" must be/,
    );
  });
});
