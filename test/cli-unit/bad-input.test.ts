import { access } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folderWith } from '../cli/command-line.ts';
import { commandHere } from './command-here.ts';

const SERVER = ['--base-url', 'http://127.0.0.1:9/v1', '--model', 'm'];
const SECRET = /"(?:http|ftp):\/\/…@h"/u;

/** [what, arguments, what the line says] */
const cases: readonly [string, readonly string[], RegExp][] = [
  ['an unknown option', ['run', 'x', '--fast'], /unknown option '--fast'/u],
  ['an unknown command', ['walk'], /unknown command 'walk'/u],
  ['no task', ['run', '--files', 'a.md'], /give a prompt or --task-file.*before --files/u],
  ['two tasks', ['run', 'x', '--task-file', 'a.md'], /either as a prompt or with --task-file/u],
  ['a task file that is missing', ['run', '--task-file', 'no.md'], /task file.*no\.md.*no such/u],
  ['an empty task file', ['run', '--task-file', 'empty.md'], /"empty\.md" is empty/u],
  ['a file that is missing', ['run', 'x', '--files', 'a.md', 'no.md'], /"no\.md".*no such/u],
  ['a folder for a file', ['run', 'x', '--files', 'sub'], /"sub" is a folder: .*sub\/\*\*/u],
  ['a pattern without a file', ['run', 'x', '--files', '*.none'], /No file matches .*\*\.none/u],
  ['an empty pattern', ['run', 'x', '--files', ''], /pattern of --files must not be empty/u],
  ['a model without a server', ['run', 'x', '--model', 'gpt'], /"gpt".*--base-url/u],
  ['a server without a model', ['run', 'x', '--base-url', 'http://h'], /--base-url needs --model/u],
  ['a key without a server', ['run', 'x', '--api-key-env', 'K'], /--api-key-env needs/u],
  ['a wrong address', ['run', 'x', '--base-url', 'h:1', '--model', 'm'], /"h:1" is no address/u],
  [
    'a key that is not set',
    ['run', 'x', ...SERVER, '--api-key-env', 'NO_KEY'],
    /NO_KEY is not set/u,
  ],
  ['a schema that is missing', ['run', 'x', '--output-schema', 'no.json'], /schema.*no such/u],
  ['a schema that is no JSON', ['run', 'x', '--output-schema', 'a.md'], /a\.md" is no JSON/u],
  ['a tool module that is missing', ['run', 'x', '--tools', 'no.mjs'], /"no\.mjs".*no such/u],
  ['a secret in the address', ['run', 'x', '--base-url', 'http://me:pw@h', '--model', 'm'], SECRET],
  ['a secret in no address', ['run', 'x', '--base-url', 'ftp://me:pw@h', '--model', 'm'], SECRET],
  ['a number that is none', ['run', 'x', '--turn-ms', 'soon'], /--turn-ms.*whole number/u],
];

it.each(cases)('refuses %s in one line, with exit code 2', async (_, args, line) => {
  await using folder = await folderWith({
    'a.md': '# a\n',
    'empty.md': '\n',
    'sub/b.md': '',
  });
  const store = args[0] === 'run' ? ['--store', 'runs.db'] : [];
  const { code, stdout, stderr } = await commandHere([...args, ...store], folder.path);
  const lines = stderr.trimEnd().split('\n');
  expect(lines.at(-1)).toMatch(line);
  expect(lines.at(-1)).toMatch(/^subagents: /u);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  await expect(access(join(folder.path, 'runs.db'))).rejects.toThrow('ENOENT');
});
