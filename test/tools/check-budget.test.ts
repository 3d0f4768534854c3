/** What a model may send, and how much it can cost main to say what is wrong with it. */
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../protocol/json.ts';
import { parseArguments } from '../../src/tools/arguments.ts';
import { schemaViolations, validateJson } from '../../src/tools/json-schema.ts';
import { checkClaimed, compileCheck } from '../../src/tools/validate-arguments.ts';

const list = <T>(length: number, item: (at: number) => T): T[] =>
  Array.from({ length }, (_, at) => item(at));
const object = (items: JsonObject): JsonObject => ({
  type: 'object',
  properties: { a: { type: 'array', items } },
});
const names = (count: number, prefix: string): string[] =>
  list(count, (at) => `${prefix}${String(at).padStart(12, '0')}`);

describe('a check of what a model sent', () => {
  it('looks a value up in a long list of allowed ones, instead of going through it', () => {
    const check = checkClaimed(object({ type: 'string', enum: names(50_000, 'x') }));
    expect(check({ a: names(40_000, 'x') })).toEqual([]);
    expect(check({ a: names(40_000, 'y') }).length).toBeLessThanOrEqual(200);
  });

  it('does not tell all allowed values for each that is none of them', () => {
    const problems = validateJson(object({ type: 'string', enum: names(5_000, 'x') }), {
      a: names(10_000, 'y'),
    });
    expect(problems.join('').length).toBeLessThan(200_000);
    expect(problems[0]).toMatch(/^"a\.0" must be one of "x0{12}", .*, …$/);
  });

  it('gives up on many values that are held against many alternatives', () => {
    const branches = list(5_000, (at) => ({ type: 'integer', const: at }));
    const problems = validateJson(object({ oneOf: branches }), { a: list(20_000, () => 'x') });
    expect(problems.at(-1)).toBe('the value is too much to check');
  });

  it('gives up on many values that each lack many properties', () => {
    const required = names(20_000, 'x');
    const properties = Object.fromEntries(required.map((name) => [name, { type: 'string' }]));
    const problems = validateJson(object({ type: 'object', properties, required }), {
      a: list(20_000, () => ({})),
    });
    expect(problems.length).toBeLessThanOrEqual(201);
    expect(problems.at(-1)).toBe('the value is too much to check');
  });

  it('still says everything of a value of ordinary size', () => {
    const items = { type: 'object', properties: { n: { type: 'integer' } }, required: ['n'] };
    expect(validateJson(object(items), { a: list(20_000, (n) => ({ n })) })).toEqual([]);
    expect(validateJson(object(items), { a: [{}, { n: 'x' }] })).toEqual([
      '"a.0.n" is missing',
      '"a.1.n" must be an integer, not a string',
    ]);
  });

  it.each<[string, JsonObject, unknown]>([
    ['a pattern that tries everything', { pattern: '^(a+)+$' }, [`${'a'.repeat(40)}!`]],
    [
      'a pattern of keys',
      { patternProperties: { '^(a+)+$': {} } },
      [{ [`${'a'.repeat(40)}!`]: 1 }],
    ],
    [
      'items that must differ',
      { type: 'array', uniqueItems: true },
      [list(20_000, (at) => ({ of: { id: at } }))],
    ],
    [
      'alternatives that lead to alternatives',
      { $ref: '#/$defs/tree' },
      [list(30, () => '[').reduce<unknown>((inner) => [inner, inner], 1)],
    ],
  ])('has its time: %s', (_, items, a) => {
    const schema: JsonObject = {
      ...object(items),
      $defs: {
        tree: {
          anyOf: [
            { type: 'array', items: { $ref: '#/$defs/tree' } },
            { type: 'array', items: { $ref: '#/$defs/tree' }, minItems: 3 },
          ],
        },
      },
    };
    expect(compileCheck(schema, 'it')({ a })).toEqual([expect.stringMatching(/more than 250 ms/)]);
  });

  it('finds many faults in a schema and tells some', () => {
    const odd = Object.fromEntries(names(50_000, 'p').map((name) => [name, { [name]: 1 }]));
    expect(schemaViolations({ type: 'object', properties: odd }).length).toBeLessThanOrEqual(200);
  });
});

describe('the arguments of a call', () => {
  it.each([
    ['brackets', '['.repeat(1_000_000), /nested more than/],
    ['empty objects', `[${'{},'.repeat(300_000)}{}]`, /more than 50000 values/],
  ])('are not built when they are a text of %s', (_, text, problem) => {
    expect(parseArguments(text).problem).toMatch(problem);
  });

  it('are taken up to their bound, empty ones as well', () => {
    expect(parseArguments(`[${'{},'.repeat(49_998)}{}]`).problem).toBeUndefined();
    expect(parseArguments(`[${'{},'.repeat(50_001)}{}]`).problem).toMatch(/more than/);
  });
});
