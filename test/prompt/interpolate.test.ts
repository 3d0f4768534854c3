import fc from 'fast-check';
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

  it.each([['{{unknown}}'], ['{{ a }}'], ['{{}}']])('names %s in what it throws', (template) => {
    expect(() => fill(`{{a}} ${template} {{a}}`)).toThrow(`\`${template}\``);
  });

  it('changes no text without braces, and looks at no value that it put in', () => {
    const plain = fc.string({ unit: 'binary' }).map((text) => text.replaceAll(/[{}]/g, ''));
    const name = fc.stringMatching(/^[a-z][a-z0-9_]{0,8}$/);
    const value = fc.oneof(
      fc.string(),
      name.map((each) => `{{${each}}}`),
      fc.constantFrom('{{', '}}', '{{ }}', '$&'),
    );
    const pieces = fc.array(fc.tuple(plain, name, value));
    fc.assert(
      fc.property(pieces, plain, (parts, rest) => {
        const known = new Map(parts.map(([, each, text]) => [each, text]));
        const template = parts.map(([text, each]) => `${text}{{${each}}}`).join('') + rest;
        const filled = parts.map(([text, each]) => text + known.get(each)).join('') + rest;
        expect(interpolate(template, (each) => known.get(each))).toBe(filled);
        expect(interpolate(rest, () => undefined)).toBe(rest);
      }),
    );
  });
});
