import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { folderWith } from '../cli/command-line.ts';
import { header, inStep } from '../session/log-parts.ts';
import { tempStore } from '../support/temp-store.ts';
import { commandHere } from './command-here.ts';

it.each([
  ['export', [], /missing required argument/u],
  ['export', ['none.db'], /Cannot open the store "none\.db": there is no such file/u],
  ['export', ['a.md'], /a\.md/u],
  ['export', ['empty.db'], /"empty\.db" is empty/u],
  ['export', ['.'], /"\." is no file/u],
  ['export', ['STORE', 'nobody'], /There is no session "nobody"/u],
  ['rm', ['STORE'], /missing required argument/u],
  ['rm', ['STORE', ''], /There is no session ""/u],
  ['import', ['copy.db', 'none.jsonl'], /Cannot read "none\.jsonl": there is no such file/u],
  ['import', ['copy.db', '.'], /"\." is a folder/u],
  ['import', ['no/copy.db', 'a.md'], /Cannot keep the store in .*no.*no such/u],
])('refuses %s %j in one line, with exit code 2', async (verb, given, message) => {
  await using files = tempStore();
  await files.store.close();
  await using folder = await folderWith({ 'a.md': '# no database\n'.repeat(50), 'empty.db': '' });
  const args = given.map((arg) => (arg === 'STORE' ? files.path : arg));
  const { code, stdout, stderr } = await commandHere([verb, ...args], folder.path);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(message);
  expect(stderr).toMatch(/^subagents: [^\n]*\n$/u);
  expect(existsSync(join(folder.path, 'none.db'))).toBe(false);
});

it.each([
  ['ls', ['none.db'], 2, /Cannot open the store "none\.db"/u],
  ['ls', ['runs.db', 'nobody'], 2, /There is no session "nobody"/u],
  ['show', ['runs.db'], 2, /missing required argument 'session'.* See "subagents show --help"/u],
  ['show', ['runs.db', 'nobody'], 2, /There is no session "nobody"/u],
  ['show', ['runs.db', 'SESSION', '--from', 'x'], 2, /--from.*whole number/u],
  ['interrupt', ['runs.db', 'SESSION'], 1, /Nobody runs session/u],
  ['interrupt', ['runs.db', 'nobody'], 2, /There is no session "nobody"/u],
  ['drain', ['runs.db', 'SESSION'], 1, /Nobody runs session/u],
  ['send', ['runs.db', 'SESSION'], 2, /missing required argument 'text'/u],
  ['send', ['runs.db', 'SESSION', ''], 2, /There is nothing to send/u],
  ['send', ['runs.db', 'nobody', 'x'], 2, /There is no session "nobody"/u],
  ['send', ['runs.db', 'SESSION', 'x', '--model', 'm'], 2, /No server for the model/u],
] as const)('refuses %s %j in one line, with exit code %i', async (verb, given, code, line) => {
  await using files = tempStore();
  await files.store.append([
    { id: SessionId('a'), epoch: FIRST_EPOCH, header: header('a'), events: inStep().events },
  ]);
  await files.store.close();
  const cwd = dirname(files.path);
  const named: Readonly<Record<string, string>> = { 'runs.db': files.path, SESSION: 'a' };
  const args = given.map((arg) => named[arg] ?? arg);
  const refused = await commandHere([verb, ...args], cwd);
  expect({ code: refused.code, stdout: refused.stdout }).toEqual({ code, stdout: '' });
  expect(refused.stderr).toMatch(line);
  expect(refused.stderr).toMatch(/^subagents: [^\n]*\n$/u);
});
