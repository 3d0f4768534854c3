import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../protocol/json.ts';
import { checkClaimed, compileCheck } from '../../src/tools/validate-arguments.ts';

const object = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  ...more,
});

describe('a compiled check', () => {
  it.each<[JsonObject, unknown, string[]]>([
    [
      object({ 'a/b': object({ '~c': { type: 'string' } }) }),
      { 'a/b': { '~c': 1 } },
      ['"a/b.~c" must be a string, not a number'],
    ],
    [
      object({ a: { type: ['string', 'null'] } }),
      { a: 1 },
      ['"a" must be a string or null, not a number'],
    ],
    [object({ a: { enum: [1, 'x'] } }), { a: 2 }, ['"a" must be one of 1, "x"']],
    [object({ a: { const: { b: 1 } } }), { a: 2 }, ['"a" must be {"b":1}']],
    [object({ a: { type: 'number', minimum: 3 } }), { a: 2 }, ['"a" must be >= 3']],
    [
      object({ a: {} }, { unevaluatedProperties: false }),
      { b: 2 },
      ['"b" is not a known property'],
    ],
    [object({}, { required: ['constructor'] }), {}, ['"constructor" is missing']],
    [object({ a: { type: 'string', format: 'date' } }), { a: 'whenever' }, []],
    [object({ a: { type: 'integer', default: 1 } }), {}, []],
    [object({}), [], ['the value must be an object, not an array']],
  ])('%j says of %j: %j', (schema, value, problems) => {
    expect(compileCheck(schema, 'the test')(value)).toEqual(problems);
  });

  it('leaves what it checks as it is', () => {
    const value = { count: '1' };
    compileCheck(object({ count: { type: 'integer', default: 1 } }), 'the test')(value);
    expect(value).toEqual({ count: '1' });
  });

  it('serves two schemas of one id', () => {
    const first = compileCheck(
      object({ a: { type: 'string' } }, { $id: 'https://example.com/tool' }),
      'the test',
    );
    const second = compileCheck(
      object({ a: { type: 'number' } }, { $id: 'https://example.com/tool' }),
      'the test',
    );
    expect(first({ a: 'x' })).toEqual([]);
    expect(second({ a: 'x' })).toHaveLength(1);
  });

  it('names whose schema does not compile', () => {
    expect(() => compileCheck({ type: 'nothing' }, 'the parameters of `a`')).toThrow(
      expect.objectContaining({
        code: 'INVALID_ARGUMENT',
        message: expect.stringContaining('The schema of the parameters of `a` does not compile'),
      }),
    );
  });
});

describe('a check of what a thread claims', () => {
  it('is a whole one for a schema of the enforced subset', () => {
    const check = checkClaimed(object({ a: object({ b: { type: 'string' } }) }));
    expect(check({ a: { b: 1 } })).toEqual(['"a.b" must be a string, not a number']);
  });

  it('keeps what is certain of any other', () => {
    const check = checkClaimed(
      object(
        { a: { type: 'string' }, b: { type: 'string', pattern: '^(x+)+$' }, c: { $ref: '#' } },
        { required: ['a', 'b'], additionalProperties: false, $schema: 'https://json-schema.org' },
      ),
    );
    expect(check({ a: 1, b: 1, c: 1, more: 1 })).toEqual(['"a" must be a string, not a number']);
    expect(check({ a: '' })).toEqual(['"b" is missing']);
    expect(check([])).toEqual(['the value must be an object, not an array']);
  });

  it('closes an object only when nothing else may open it', () => {
    const closed = { required: [], additionalProperties: false };
    const odd = { b: { type: 'string', minLength: 1 } };
    expect(checkClaimed(object(odd, closed))({ x: 1 })).toHaveLength(1);
    expect(checkClaimed(object(odd, { ...closed, patternProperties: {} }))({ x: 1 })).toEqual([]);
  });

  it('survives a schema that is none', () => {
    expect(checkClaimed({ type: 'object', properties: 3, required: [1] })({ a: 1 })).toEqual([]);
  });
});
