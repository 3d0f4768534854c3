import { access } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { folderWith, subagents } from './command-line.ts';

/** [what, arguments, what the line says]: what only a harness, or a thread, can tell. */
const cases: readonly [string, readonly string[], RegExp][] = [
  ['a wrong schema', ['--output-schema', 'wrong.json'], /Unsupported JSON Schema/u],
  ['a tool module that breaks', ['--tools', 'broken.mjs'], /broken\.mjs|not closed|on purpose/u],
  ['too little memory', ['--memory-mb', '1'], /--memory-mb takes 32 to 4096/u],
  [
    'a schema without a model',
    ['--output-schema', 'schema.json'],
    /--output-schema needs a model/u,
  ],
];

it.each(cases)('refuses %s in one line, with exit code 2', async (_, args, line) => {
  await using folder = await folderWith({
    'wrong.json': '{"type":"array"}',
    'schema.json': '{"type":"object"}',
    'broken.mjs': 'throw new Error("on purpose");',
  });
  const all = ['run', 'x', ...args, '--store', 'runs.db'];
  const { code, stdout, stderr } = await subagents(all, { cwd: folder.path });
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
