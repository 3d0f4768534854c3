import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folderWith } from '../cli/command-line.ts';
import { UsageError } from '../../src/cli/exit-codes.ts';
import { findFiles } from '../../src/cli/find-files.ts';

const TREE = Object.fromEntries(
  [
    'r.md',
    'a/o.md',
    'a/sub/s.md',
    'a/node_modules/y/m.md',
    'b/p.md',
    'b/node_modules/x/n.md',
    'b/node_modules/x/node_modules/z/deep.md',
    'b/my_node_modules.md',
  ].map((name) => [name, '']),
);

/** What `patterns` find, run in `start`; `{}` stands for the folder of the whole tree. */
async function found(start: string, ...patterns: readonly string[]): Promise<readonly string[]> {
  await using folder = await folderWith(TREE);
  const given = patterns.map((pattern) => pattern.replace('{}', folder.path));
  return await findFiles(given, join(folder.path, start), new AbortController().signal);
}

it.each([
  ['a', ['**/*.md'], ['o.md', 'sub/s.md']],
  ['a', ['../**/*.md'], ['../b/my_node_modules.md', '../b/p.md', '../r.md', 'o.md', 'sub/s.md']],
  ['a', ['../a/*.md'], ['o.md']],
  ['a', ['{}/**/[op].md'], ['../b/p.md', 'o.md']],
  ['a/sub', ['../../**/[op].md', '*.md'], ['../../b/p.md', '../o.md', 's.md']],
  ['', ['**/p.md', 'r.md', 'a/../b/p.md'], ['b/p.md', 'r.md']],
])('finds from %s with %j, and leaves node_modules out', async (start, patterns, files) => {
  expect(await found(start, ...patterns)).toEqual(files);
});

it.each([
  ['', ['b/node_modules/x/*.md'], ['b/node_modules/x/n.md']],
  ['a', ['../*/node_modules/*/*.md'], ['../b/node_modules/x/n.md', 'node_modules/y/m.md']],
  ['', ['r.md', 'b/node_modules/x/**'], ['b/node_modules/x/n.md', 'r.md']],
  ['b/node_modules/x', ['**/*.md', '../../../r.md'], ['../../../r.md', 'n.md']],
])('finds from %s with %j what a pattern names', async (start, patterns, files) => {
  expect(await found(start, ...patterns)).toEqual(files);
});

it.each([
  ['a', ['../**/*.md', '!../b/**'], ['../r.md', 'o.md', 'sub/s.md']],
  ['a', ['../**/*.md', '!../b/**/p.md', '!../b/my*'], ['../r.md', 'o.md', 'sub/s.md']],
  ['a', ['../**/*.md', '!../b'], ['../r.md', 'o.md', 'sub/s.md']],
  ['a', ['../**/*.md', '!**/{o,p,my*}.md'], ['../r.md', 'sub/s.md']],
  ['a', ['**/*.md', 'sub/s.md', '!{}/a/sub/**'], ['o.md']],
  ['a', ['sub/*.md', 'o.md', '!sub'], ['o.md']],
  ['a/sub', ['*.md', '../o.md', '!../*.md'], ['s.md']],
  ['', ['**/*.md', '!b/node_modules/x/*.md', '!b/*.md'], ['a/o.md', 'a/sub/s.md', 'r.md']],
])('leaves out from %s with %j', async (start, patterns, files) => {
  expect(await found(start, ...patterns)).toEqual(files);
});

it('takes folders and files for what they are called, whatever that means as a pattern', async () => {
  await using folder = await folderWith({
    '(x) [y]!/a[1].md': '',
    '(x) [y]!/a1.md': '',
    '(x) [y]!/{b}/c.md': '',
    'z.md': '',
  });
  const cwd = join(folder.path, '(x) [y]!');
  const find = (...patterns: readonly string[]): Promise<readonly string[]> =>
    findFiles(patterns, cwd, new AbortController().signal);
  expect(await find('../**/*.md')).toEqual(['../z.md', 'a1.md', 'a[1].md', '{b}/c.md']);
  expect(await find('a[1].md')).toEqual(['a[1].md']);
  expect(await find('*.md', '!a[1].md')).toEqual(['a1.md']);
  expect(await find('../(x) [y]!/{b}/c.md')).toEqual(['{b}/c.md']);
});

it.each([[''], [' '], ['!']])('refuses the empty pattern %j', async (pattern) => {
  const error: unknown = await found('a', 'o.md', pattern).catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(UsageError);
  expect(String(error)).toMatch(/must not be empty/u);
});
