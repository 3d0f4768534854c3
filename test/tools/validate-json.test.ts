import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../protocol/json.ts';
import { validateJson } from '../../src/tools/json-schema.ts';

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
