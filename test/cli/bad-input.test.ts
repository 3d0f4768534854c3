import { access } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folderWith, subagents } from './command-line.ts';

const SERVER = ['--base-url', 'http://127.0.0.1:9/v1', '--model', 'm'];

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
  ['a wrong schema', ['run', 'x', '--output-schema', 'wrong.json'], /Unsupported JSON Schema/u],
  ['a tool module that is missing', ['run', 'x', '--tools', 'no.mjs'], /"no\.mjs".*no such/u],
  [
    'a tool module that breaks',
    ['run', 'x', '--tools', 'broken.mjs'],
    /broken\.mjs|not closed|on purpose/u,
  ],
  ['too little memory', ['run', 'x', '--memory-mb', '1'], /--memory-mb takes 32 to 4096/u],
  ['a number that is none', ['run', 'x', '--turn-ms', 'soon'], /--turn-ms.*whole number/u],
];

it.each(cases)('refuses %s in one line, with exit code 2', async (_, args, line) => {
  await using folder = await folderWith({
    'a.md': '# a\n',
    'empty.md': '\n',
    'sub/b.md': '',
    'wrong.json': '{"type":"array"}',
    'broken.mjs': 'throw new Error("on purpose");',
  });
  const store = args[0] === 'run' ? ['--store', 'runs.db'] : [];
  const { code, stdout, stderr } = await subagents([...args, ...store], { cwd: folder.path });
  const lines = stderr.trimEnd().split('\n');
  expect(lines.at(-1)).toMatch(line);
  expect(lines.at(-1)).toMatch(/^subagents: /u);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  await expect(access(join(folder.path, 'runs.db'))).rejects.toThrow('ENOENT');
});

it('says which option lets a run go on where no limit of memory holds', async () => {
  const env = { NODE_OPTIONS: '--max-old-space-size=512' };
  const refused = await subagents(['run', 'x'], { env });
  expect(refused).toMatchObject({ code: 2, stdout: '' });
  expect(refused.stderr).toMatch(/--max-old-space-size.*--memory-mb to 'unlimited'/u);
  const run = await subagents(['run', 'x', '--memory-mb', 'unlimited'], { env });
  expect(run.code).toBe(0);
});

it.each([
  ['in a folder that is missing', 'no/runs.db', /Cannot keep the store in .*no.*no such/u],
  ['that is a folder', 'sub', /The store .*sub" is no file/u],
  ['that is another file', 'a.md', /a\.md/u],
])('refuses a store %s', async (_, store, line) => {
  await using folder = await folderWith({ 'a.md': '# a, and no database\n', 'sub/b.md': '' });
  const { code, stderr } = await subagents(['run', 'x', '--store', store], { cwd: folder.path });
  expect(code).toBe(2);
  expect(stderr.trimEnd().split('\n').at(-1)).toMatch(line);
});

it('refuses a server that nobody answers for, before anything is stored', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((listening) => server.once('listening', listening));
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  await using folder = await folderWith();
  const { code, stderr } = await subagents(
    ['run', 'x', '--base-url', `http://127.0.0.1:${port}/v1`, '--model', 'm', '--store', 'runs.db'],
    { cwd: folder.path },
  );
  expect(code).toBe(2);
  expect(stderr).toMatch(
    /^subagents: Cannot reach http:\/\/127\.0\.0\.1:\d+: connection refused\..*--base-url.*\n$/u,
  );
  await expect(access(join(folder.path, 'runs.db'))).rejects.toThrow('ENOENT');
});
