import { expect, it } from 'vitest';
import { markdownHeadings } from '../../src/cli/embedded/markdown.ts';

const cases: readonly [string, string, readonly string[]][] = [
  ['six levels', '# a\n###### b ##\n####### c\n#d\n#', ['a', 'b', '']],
  ['underlined headings', 'one\n===\n\ntwo\nlines\n---\n\n---\n', ['one', 'two lines']],
  ['no list item above a rule', '- item\n---\n\n> quote\n---\n', []],
  ['no code in fences', '```sh\n# a\n```\n~~~\n```\n# b\n~~~\n# c\n````\n```\n# d\n````', ['c']],
  ['no indented code', '    # a\n\ttext\n\n   # b', ['b']],
  ['no comment', '<!-- # a\n# b\n-->\n# c\n<!-- d -->\n# e', ['c', 'e']],
  ['no front matter', '---\ntitle: x\n# no\n---\n# yes', ['yes']],
  ['no inline code that looks like a fence', '``` a ` b\n# c', ['c']],
  ['lines of any system', '# a\r\n# b\r# c', ['a', 'b', 'c']],
];

it.each(cases)('finds %s', (_, source, headings) => {
  expect(markdownHeadings(source)).toEqual(headings);
});
