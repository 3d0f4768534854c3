import { readFileSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { SessionId } from '../../protocol/ids.ts';
import { FIRST_EPOCH } from '../../src/session/store.ts';
import { damage } from '../session/damage.ts';
import { header, inStep } from '../session/log-parts.ts';
import { tempStore } from '../support/temp-store.ts';
import { folderWith, subagents } from './command-line.ts';

const a = SessionId('a');
const creation = { id: a, epoch: FIRST_EPOCH, header: header('a'), events: inStep().events };

it('says that nothing is wrong with a store that is in use, and notes what is', async () => {
  await using files = tempStore();
  await files.store.append([creation]);
  const used = await subagents(['doctor', files.path]);
  expect(used).toMatchObject({ code: 0, stderr: '' });
  expect(used.stdout).toMatch(
    /^note: session a: .* is held by process \d+ .*\nNo errors, no warnings, 1 note\.\n$/u,
  );
  await files.store.close();
  const left = await subagents(['doctor', files.path]);
  expect(left).toMatchObject({ code: 0, stderr: '' });
  expect(left.stdout).toMatch(
    /^note: session a: Turn 1 was cut off; .*\.\nNo errors, no warnings, 1 note\.\n$/u,
  );
});

it('says what is wrong with a damaged one, and what to do, and ends with 1', async () => {
  await using files = tempStore();
  await files.store.append([creation]);
  await files.store.close();
  damage(files.path, 'DELETE FROM event WHERE seq = 0');
  const { code, stdout, stderr } = await subagents(['doctor', files.path]);
  expect({ code, stderr }).toEqual({ code: 1, stderr: '' });
  expect(stdout.split('\n')).toEqual([
    'error: session a: The numbers do not go on at event 0. ' +
      'The session cannot be resumed. Restore a copy, or remove it.',
    '1 error, no warnings.',
    '',
  ]);
  const json = await subagents(['doctor', '--json', files.path]);
  expect(json.code).toBe(1);
  expect(
    json.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as unknown),
  ).toEqual([
    {
      severity: 'error',
      kind: 'missing-events',
      session: 'a',
      text: 'The numbers do not go on at event 0.',
    },
  ]);
});

it('says what only takes room, and what is lost', async () => {
  await using files = tempStore();
  const checkpoint = { seq: 0, rows: {} };
  await files.store.append([{ ...creation, checkpoint }]);
  await files.store.close();
  damage(files.path, "DELETE FROM session WHERE id = 'a'");
  const { code, stdout } = await subagents(['doctor', files.path]);
  expect(code).toBe(1);
  expect(stdout.split('\n')).toEqual([
    'warning: 1 row of `checkpoint` belongs to no session. Nothing is lost with that.',
    expect.stringMatching(
      /^error: \d+ rows of `event` .*Their session is lost\. Restore a copy\.$/u,
    ),
    '1 error, 1 warning.',
    '',
  ]);
});

it('finds a file whose pages are damaged, and ends with 1', async () => {
  await using files = tempStore();
  await files.store.append([creation]);
  await files.store.close();
  const bytes = readFileSync(files.path);
  bytes.fill(0xff, 4_096, 4_096 * 6);
  writeFileSync(files.path, bytes);
  const { code, stdout } = await subagents(['doctor', files.path]);
  expect(code).toBe(1);
  expect(stdout).toMatch(/^error: .*Restore a copy/u);
});

it.each([
  ['nothing', ['doctor'], /missing required argument/u],
  ['a file that is missing', ['doctor', 'none.db'], /none\.db: the file does not exist\.$/mu],
  ['a store in memory', ['doctor', ':memory:'], /a store in memory has none\.$/mu],
  ['a file of something else', ['doctor', 'a.md'], /no database/u],
  ['an empty file', ['doctor', 'empty.db'], /is empty/u],
  ['a folder', ['doctor', '.'], /it is a folder/u],
])('refuses %s in one line, with exit code 2', async (_, args, message) => {
  await using folder = await folderWith({
    'a.md': '# not a database\n'.repeat(50),
    'empty.db': '',
  });
  const { code, stdout, stderr } = await subagents(args, { cwd: folder.path });
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toMatch(message);
  expect(stderr).toMatch(/^subagents: [^\n]*\n$/u);
});
