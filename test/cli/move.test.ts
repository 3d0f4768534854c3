import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openSqliteStore } from '../../src/index.ts';
import { damage } from '../session/damage.ts';
import { folderWith, MAIN, start, subagents, type Folder } from './command-line.ts';

/** A folder with a store of one root and two children. */
async function folderWithRun(): Promise<Folder> {
  const folder = await folderWith({ 'a.md': '# a\n', 'b.md': '# b\n' });
  const run = ['run', 'Summarise.', '--files', '*.md', '--store', 'runs.db'];
  expect((await subagents(run, { cwd: folder.path })).code).toBe(0);
  return folder;
}

async function idsIn(folder: Folder, store: string): Promise<readonly string[]> {
  const file = openSqliteStore({ path: join(folder.path, store) });
  const headers = await file.list();
  await file.close();
  return headers.map(({ id }) => id);
}

it('exports a whole store, and imports it again with the ids it has', async () => {
  await using folder = await folderWithRun();
  const { path: cwd } = folder;
  const all = await subagents(['export', 'runs.db'], { cwd });
  expect(all).toMatchObject({ code: 0, stderr: '' });
  await folder.write('all.jsonl', all.stdout);
  const imported = await subagents(['import', 'copy.db', 'all.jsonl'], { cwd });
  expect(imported).toMatchObject({ code: 0, stdout: 'Imported 3 sessions.\n', stderr: '' });
  expect(await idsIn(folder, 'copy.db')).toEqual(await idsIn(folder, 'runs.db'));
  expect((await subagents(['export', 'copy.db'], { cwd })).stdout).toBe(all.stdout);
});

it('exports one session with all below it, and no other', async () => {
  await using folder = await folderWithRun();
  const [root = '', child = ''] = await idsIn(folder, 'runs.db');
  const sessions = async (...named: readonly string[]): Promise<unknown> => {
    const args = ['export', 'runs.db', ...named];
    const { stdout } = await subagents(args, { cwd: folder.path });
    return (JSON.parse(stdout.split('\n')[0] ?? '') as { sessions: unknown }).sessions;
  };
  expect(await sessions(root)).toEqual(await idsIn(folder, 'runs.db'));
  expect(await sessions(child.slice(-8))).toEqual([child]);
});

it('imports what it reads on stdin, under new ids when it is told to', async () => {
  await using folder = await folderWithRun();
  const { path: cwd } = folder;
  const { stdout } = await subagents(['export', 'runs.db'], { cwd });
  const run = start([MAIN, 'import', 'copy.db', '-', '--new-ids', '--json'], {
    cwd,
    input: stdout,
  });
  const imported = await run.finished;
  expect(imported).toMatchObject({ code: 0, stderr: '' });
  const pairs = imported.stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { from: string; id: string });
  expect(pairs.map(({ from }) => from)).toEqual(await idsIn(folder, 'runs.db'));
  expect(new Set(pairs.map(({ id }) => id))).toEqual(new Set(await idsIn(folder, 'copy.db')));
});

it('imports nothing of lines that were cut off, and leaves no store behind', async () => {
  await using folder = await folderWithRun();
  const { path: cwd } = folder;
  const { stdout } = await subagents(['export', 'runs.db'], { cwd });
  await folder.write('cut.jsonl', stdout.slice(0, stdout.length / 2));
  const refused = await subagents(['import', 'copy.db', 'cut.jsonl'], { cwd });
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toMatch(/^subagents: [^\n]*\n$/u);
  expect(existsSync(join(cwd, 'copy.db'))).toBe(false);
});

it('removes a session with all below it, and says how many these were', async () => {
  await using folder = await folderWithRun();
  const { path: cwd } = folder;
  const [root = '', child = ''] = await idsIn(folder, 'runs.db');
  const one = await subagents(['rm', 'runs.db', child, '--json'], { cwd });
  expect(one).toMatchObject({ code: 0, stdout: `{"removed":"${child}"}\n` });
  const rest = await subagents(['rm', 'runs.db', root], { cwd });
  expect(rest).toMatchObject({ code: 0, stdout: 'Removed 2 sessions.\n' });
  expect(await idsIn(folder, 'runs.db')).toEqual([]);
});

it('removes nothing that another process holds, and exits with 1', async () => {
  await using folder = await folderWithRun();
  const [root = ''] = await idsIn(folder, 'runs.db');
  const holder = openSqliteStore({ path: join(folder.path, 'runs.db') });
  await holder.acquire(root as never);
  const refused = await subagents(['rm', 'runs.db', root], { cwd: folder.path });
  await holder.close();
  expect(refused).toMatchObject({ code: 1, stdout: '' });
  expect(refused.stderr).toMatch(
    new RegExp(
      `^subagents: [^\\n]*process ${process.pid}[^\\n]* Stop that process first\\.\\n`,
      'u',
    ),
  );
});

it('says on stderr what of an export is damaged, exits with 1, and an import leaves it out', async () => {
  await using folder = await folderWithRun();
  const { path: cwd } = folder;
  const [, child = ''] = await idsIn(folder, 'runs.db');
  damage(
    join(cwd, 'runs.db'),
    `DELETE FROM event WHERE seq = 0 AND session = (SELECT rowid FROM session WHERE id = '${child}')`,
  );
  const all = await subagents(['export', 'runs.db'], { cwd });
  expect(all.code).toBe(1);
  expect(all.stderr).toMatch(new RegExp(`^subagents: session ${child}: [^\\n]*\\n$`, 'u'));
  await folder.write('all.jsonl', all.stdout);
  const imported = await subagents(['import', 'copy.db', 'all.jsonl'], { cwd });
  expect(imported).toMatchObject({ code: 3, stdout: 'Imported 2 sessions.\n' });
  expect(imported.stderr).toMatch(new RegExp(`^subagents: session ${child} is left out: `, 'u'));
});
