import { expect, it } from 'vitest';
import {
  cleanLine,
  cleanText,
  columnsOf,
  duration,
  fit,
  rowsOf,
  tokenCount,
  withoutSecrets,
} from '../../src/cli/text.ts';

it('takes the power over the terminal from foreign text', () => {
  expect(cleanLine('\u001B[2Ja\u001B]0;title\u0007b\r\nc\u0000d\u202Ee')).toBe('ab c d e');
  expect(cleanText('a\u001B[1mb\r\n\tc\u0008d\rd')).toBe('ab\n\tcd\nd');
  expect(cleanText('a\u202E\u2066b\u2069\u202Cc')).toBe('abc');
});

it.each([
  ['abc', 5, 'abc  '],
  ['abcdef', 4, 'abc…'],
  ['日本語', 5, '日本…'],
  ['日本語', 4, '日… '],
  ['👩‍👩‍👧x', 3, '👩‍👩‍👧x'],
  ['ab', 0, ''],
])('fits %s into %i columns', (text, width, fitted) => {
  expect(fit(text, width)).toBe(fitted);
  expect(columnsOf(fit(text, width))).toBe(width);
});

it.each([
  ['', 5, 1],
  ['abcde', 5, 1],
  ['\u001B[31mabcde\u001B[0mf', 5, 2],
  ['日本語', 5, 2],
  ['a日本語本', 3, 4],
])('counts the rows that %j takes in %i columns', (text, columns, rows) => {
  expect(rowsOf(text, columns)).toBe(rows);
});

it('writes times and counts in few columns', () => {
  expect([0, 940, 59_949, 59_950, 723_400].map(duration)).toEqual([
    '0.0 s',
    '0.9 s',
    '59.9 s',
    '1:00',
    '12:03',
  ]);
  expect([0, 999, 1000, 999_949, 999_950].map(tokenCount)).toEqual([
    '0',
    '999',
    '1.0k',
    '999.9k',
    '1.0M',
  ]);
});

it.each([
  ['http://me:secret@host:1/v1?a=@', 'http://…@host:1/v1?a=@'],
  ['ftp://me@host', 'ftp://…@host'],
  ['me:secret@host', '…@host'],
  ['http://host/v1/@me', 'http://host/v1/@me'],
])('shows of the address %s no more than %s', (address, shown) => {
  expect(withoutSecrets(address)).toBe(shown);
});
