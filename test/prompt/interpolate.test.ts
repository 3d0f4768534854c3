import { describe, expect, it } from 'vitest';
import { interpolate } from '../../src/prompt/interpolate.ts';

const values = new Map([
  ['a', 'A'],
  ['long_name2', 'L'],
  ['braces', '{{a}}'],
  ['empty', ''],
]);
const fill = (template: string): string => interpolate(template, (name) => values.get(name));

describe('interpolation', () => {
  it.each([
    ['plain', 'plain'],
    ['{{a}}{{long_name2}} {{a}}!', 'AL A!'],
    ['{{empty}}', ''],
    ['{ {a} } }}', '{ {a} } }}'],
    ['a lone {{ stays', 'a lone {{ stays'],
    ['{{a}} and {{', 'A and {{'],
    ['{{braces}}', '{{a}}'],
    ['$& {{a}} $1', '$& A $1'],
  ])('makes %j of %j', (template, text) => {
    expect(fill(template)).toBe(text);
  });

  it.each([
    ['{{ a }}'],
    ['{{}}'],
    ['{{A}}'],
    ['{{a.b}}'],
    ['{{{a}}}'],
    ['{{2a}}'],
    ['{{a\n}}'],
    ['{{ {{a}}'],
  ])('refuses %j as malformed', (template) => {
    expect(() => fill(template)).toThrow('malformed');
  });

  it.each([['{{unknown}}'], ['{{constructor}}']])('refuses %j, which has no value', (template) => {
    expect(() => fill(template)).toThrow('has no value');
  });
});
